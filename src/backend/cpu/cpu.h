// SPDX-License-Identifier: Apache-2.0
// The fast backend for processors: bf16 weights in tiles, fp32 chains (cpu/simd.h), a pool of threads.
// Invariant: how an operation is cut into tasks never changes a result; scratch only grows, so steps of a size that was
// seen before allocate nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "backend/cpu/simd.h"
#include "backend/host.h"
#include "base/memory.h"
#include "base/threads.h"

namespace colibri::cpu {

/// Grow-only memory for intermediate results, page-aligned. Contents are lost when it grows.
class Scratch {
 public:
  float* floats(std::size_t count);

 private:
  Buffer buffer_;
};

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr std::size_t kLaneBytes = kLanes * sizeof(float);
constexpr int pad_lanes(int n) { return ceil_div(n, kLanes) * kLanes; }

/// Writes rows row(0) ... row(tokens - 1) of `cols` floats as a panel, the tail of the last chunk zeroed.
template <class RowOf>
void pack_panel(RowOf row, int tokens, int cols, float* panel);

class CpuBackend final : public HostBackend {
 public:
  explicit CpuBackend(int threads) : pool_(threads) {}

  std::string_view name() const override { return "cpu"; }
  int threads() const override { return pool_.size(); }
  void adopt_thread() override { pool_.pin_caller(); }
  double measure_flops() override;
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
  /// Some tokens of one expert: pairs [first, first + tokens) of the dispatch table.
  struct ExpertBlock {
    int expert;
    int first;
    int tokens;
  };
  /// The blocks of one expert.
  struct BlockRange {
    int first;
    int last;
  };
  /// A layer's query heads by the cached head that they read.
  struct HeadGroups {
    int count;  // cached heads
    int size;   // query heads of each
    int key_dim;
    int value_dim;
    float scale;
    int window;  // 0: all
    int kv_group;
    std::span<const float> sinks;  // [count * size] or empty
  };
  /// Some (query, head) rows of one sequence that read the same KV head: row i is query i / group, head i % group.
  struct AttentionTile {
    int sequence;
    int kv_head;
    int first;
    int rows;
  };

  /// f(first, last) over [0, rows), cut so that a task is worth handing to another thread.
  template <class F>
  void for_rows(int rows, std::size_t work_per_row, F f);

  void norm_row(const float* x, std::span<const float> weight, float eps, float* out) const;
  void prepare_rope(const RopeSpec& rope, std::span<const std::int32_t> positions);
  void turn(float* head, const RopeSpec& rope, const float* cos_sin) const;
  void turn_heads(float* row, int heads, const AttentionSpec& spec, std::span<const float> norm, float eps,
                  const float* cos_sin) const;
  template <class Cache>
  void attend_all(ConstRows q, const HeadGroups& heads, const Batch& batch, const Cache& cache, Rows out);
  template <class Cache>
  void attend(const AttentionTile& tile, ConstRows q, const HeadGroups& heads, const SequenceRows& sequence,
              const Cache& cache, float* scratch, Rows out) const;
  void dispatch(const Routing& routing, int n_experts);
  void choose(float* scores, float* spare, const RouterView& router, const RouterSpec& spec,
              std::span<std::int32_t> ids, std::span<float> weights) const;

  const Simd& simd_ = simd();
  ThreadPool pool_;

  Scratch panels_;  // packed x of linear and experts
  Scratch hidden_;  // experts: activations between their two products
  Scratch parts_;   // experts: some outputs of all pairs, per thread
  Scratch logits_;  // route: logits, and as much again to choose on
  Scratch heads_;   // attention: per thread; delta_rule: [rows] of unit q and k, decay and beta
  std::vector<std::int32_t> offsets_;
  std::vector<std::int32_t> pairs_;
  std::vector<std::int32_t> place_;  // of a pair in pairs_
  std::vector<ExpertBlock> blocks_;
  std::vector<BlockRange> awake_;  // one for each expert that has tokens
  std::vector<AttentionTile> tiles_;

  // cos | sin of the rows of this step, kept from layer to layer: rope_table_ is [rows][2][dim / 2].
  std::vector<std::int32_t> rope_positions_;
  RopeSpec rope_spec_;
  std::vector<float> rope_table_;
};

/// Element-operations below which a second thread costs more than it gains (a region is about 1 us).
inline constexpr std::size_t kGrain = 32768;

template <class F>
void CpuBackend::for_rows(int rows, std::size_t work_per_row, F f) {
  const int step = static_cast<int>(std::max<std::size_t>(1, kGrain / std::max<std::size_t>(1, work_per_row)));
  pool_.parallel(ceil_div(rows, step), [&](int task, int) {
    const int first = task * step;
    f(first, first + std::min(step, rows - first));
  });
}

template <class RowOf>
void pack_panel(RowOf row, int tokens, int cols, float* panel) {
  const int whole = cols / kLanes * kLanes;
  for (int t = 0; t < tokens; ++t) {
    const float* from = row(t);
    float* to = panel + std::ptrdiff_t{t} * kLanes;
    // memcpy of a constant size is a few vector moves; std::copy_n would call memmove.
    for (int k = 0; k < whole; k += kLanes, to += std::ptrdiff_t{tokens} * kLanes)
      std::memcpy(to, from + k, kLaneBytes);
    if (whole < cols) std::fill(std::copy_n(from + whole, cols - whole, to), to + kLanes, 0.0F);
  }
}

}  // namespace colibri::cpu
