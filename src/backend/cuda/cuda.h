// SPDX-License-Identifier: Apache-2.0
// The backend for NVIDIA GPUs: one kernel or a few for each operation, all on one stream.
// Invariant: a row's chain of sums is the same whatever kernel variant, batch or captured step computes it; arguments
// of kernels depend on the batch's sizes alone, all else of a batch is read from fixed places in device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"

namespace colibri::cuda {

/// Ends the process where a call failed: 86 where the GPU needs service, else 75, since a restart cures it.
void check(cudaError_t status, const char* what);

inline constexpr int kMaxRopeDim = 512;
inline constexpr int kAttentionChunk = 128;  // keys
inline constexpr int kMaxValueDim = 512;     // of a head in attention

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// The batch that has begun, in device memory.
struct DeviceBatch {
  const std::int32_t* tokens = nullptr;      // [rows]
  const std::int32_t* positions = nullptr;   // [rows]
  const std::int32_t* sequences = nullptr;   // [rows]: the one that the row belongs to
  const std::int32_t* first_rows = nullptr;  // [sequences + 1]
  const std::int32_t* logit_rows = nullptr;  // [logit rows]
  const std::int32_t* tables = nullptr;      // entries of a table, sequences, then [groups][sequences][entries]
};

/// What kernels count during a step.
struct DeviceCounters {
  unsigned long long experts_touched;
  std::uint64_t route_start_ns;
  std::uint64_t route_ns;
};

class CudaBackend final : public Backend {
 public:
  /// Error 69 with the reason where there is no GPU that this build can use.
  static Result<std::unique_ptr<Backend>> create();
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  std::string_view name() const override { return "cuda"; }
  int threads() const override { return 1; }
  void adopt_thread() override {}
  bool on_host() const override { return false; }
  Device device() const override;
  Result<double> measure_read_bandwidth(std::size_t bytes) override;
  double measure_flops() override;
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override;
  Result<Buffer> place(Buffer host, std::string_view purpose) override;
  void zero(void* to, std::size_t bytes) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill_random(const Matrix& matrix, std::uint64_t seed) override;
  Status prepare(const ModelSpec& spec, const StepLimits& limits) override;
  void begin(const Batch& batch) override;
  Rows finish(Rows rows) override;
  StepCounters counters() const override;
  std::unique_ptr<CapturedStep> capture(const std::function<void()>& enqueue) override;
  void replay(const CapturedStep& step) override;

  void embed(const Batch& batch, const Matrix& table, Rows out) override;
  void gather(ConstRows x, const Batch& batch, Rows out) override;
  void rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows out) override;
  void layer_norm(ConstRows x, std::span<const float> weight, std::span<const float> bias, float eps,
                  Rows out) override;
  void scale(Rows x, float factor) override;
  void linear(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out) override;
  void rope_and_store(Rows q, Rows k, ConstRows v, const AttentionSpec& spec, std::span<const float> q_norm,
                      std::span<const float> k_norm, float eps, const Batch& batch, const KvView& kv) override;
  void attention(ConstRows q, const AttentionSpec& spec, std::span<const float> sinks, const Batch& batch,
                 const KvView& kv, Rows out) override;
  void latent_rope_and_store(ConstRows q, ConstRows latents, const LatentAttentionSpec& spec,
                             std::span<const float> kv_norm, const Batch& batch, const LatentView& cache,
                             Rows queries) override;
  void latent_attention(ConstRows queries, const LatentAttentionSpec& spec, const Batch& batch, const LatentView& cache,
                        Rows out) override;
  void silu_mul(ConstRows gate, ConstRows up, Rows out) override;
  void sigmoid_mul(ConstRows x, ConstRows gate, Rows out) override;
  void multiply(ConstRows x, ConstRows y, Rows out) override;
  void short_conv(ConstRows x, std::span<const float> weight, std::span<const float> bias, const Batch& batch,
                  const StateView& state, int group, Rows out) override;
  void delta_rule(ConstRows qkv, ConstRows gates, const DeltaNetSpec& spec, std::span<const float> a_log,
                  std::span<const float> dt_bias, const Batch& batch, const StateView& state, Rows out) override;
  void add_gated(ConstRows y, ConstRows gate, Rows out) override;
  void route(ConstRows x, const RouterView& router, const RouterSpec& spec, const Routing& routing) override;
  void experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out) override;

 private:
  /// Query heads by the cached head that they read, and how far rows see.
  struct Heads {
    int count = 0;  // cached heads
    int group = 0;  // query heads of each
    int key_dim = 0;
    int value_dim = 0;
    float scale = 0.0F;
    int window = 0;  // 0: all
    int kv_group = 0;
    const float* sinks = nullptr;  // [count * group]
  };

  CudaBackend() = default;
  static std::size_t route_bytes(const RouterSpec& spec, int rows);
  static std::size_t experts_bytes(const ExpertShape& shape, int n_experts, int top_k, int rows);
  static std::size_t attend_bytes(const Heads& heads, int rows, int chunks);
  /// The largest sizes of a batch that fit now.
  Status reserve_batch(const StepLimits& limits, int groups);
  Status reserve_results(std::size_t floats);
  /// At least `bytes` of memory for one operation's intermediate results.
  Status reserve_work(std::size_t bytes);
  std::byte* work(std::size_t bytes);
  /// Chunks of keys that some row may see.
  int most_chunks(int window) const;
  template <class Cache>
  void attend(ConstRows q, const Heads& heads, const Cache& cache, Rows out);
  template <int R>
  void run_experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out);
  void product(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out,
               DeviceCounters* stamp);

  cudaStream_t stream_ = nullptr;
  bool capturing_ = false;

  StepLimits limits_;  // that the batch's memory holds
  int groups_ = 0;
  DeviceBatch batch_;
  Buffer batch_memory_;
  std::int32_t* staging_ = nullptr;  // pinned, laid out as batch_memory_
  int most_keys_ = 0;                // that a row of this batch sees
  Buffer counters_memory_;
  DeviceCounters* counters_ = nullptr;       // on the device
  DeviceCounters* read_counters_ = nullptr;  // pinned; of the step that has finished

  Buffer work_;
  std::vector<Buffer> outgrown_;  // captured steps may still point into these

  float* results_ = nullptr;  // pinned
  std::size_t results_floats_ = 0;
};

}  // namespace colibri::cuda
