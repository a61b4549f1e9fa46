// SPDX-License-Identifier: Apache-2.0
// Memory, batches and steps on the GPU.
// Invariant: nothing waits for the GPU but finish() and the moves of weights; what captured steps point into lives as
// long as the backend.
#include "backend/cuda/cuda.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/check.h"
#include "core/kv_view.h"

namespace colibri::cuda {
namespace {

constexpr int kLeastMajor = 8;  // compute capability 8.0
constexpr std::size_t kStagingBytes = std::size_t{32} << 20;

bool needs_service(cudaError_t status) {
  return status == cudaErrorECCUncorrectable || status == cudaErrorHardwareStackError ||
         status == cudaErrorNvlinkUncorrectable;
}

class CapturedGraph final : public CapturedStep {
 public:
  CapturedGraph(cudaGraphExec_t graph, const DeviceBatch& batch) : graph_(graph), tables_(batch.tables) {}
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  ~CapturedGraph() override { cudaGraphExecDestroy(graph_); }
  /// Whether the batch still lies where this step reads it.
  bool reads(const DeviceBatch& batch) const { return batch.tables == tables_; }
  cudaGraphExec_t graph() const { return graph_; }

 private:
  cudaGraphExec_t graph_;
  const std::int32_t* tables_;
};

/// Pinned memory for as long as it is in scope.
struct Pinned {
  explicit Pinned(std::size_t bytes) { check(cudaMallocHost(&data, bytes), "pinned memory"); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { cudaFreeHost(data); }
  void* data = nullptr;
};

int table_entries(const StepLimits& limits) { return ceil_div(std::max(limits.context, 1), kBlockTokens); }

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const Exit code = needs_service(status) ? Exit::gpu_service : Exit::gpu_restart;
  std::fprintf(stderr, "colibri: GPU fault in %s: %s; %s\n", what, cudaGetErrorString(status),
               code == Exit::gpu_service ? "the GPU needs service" : "start again");
  std::fflush(stderr);
  _exit(static_cast<int>(code));
}

Result<std::unique_ptr<Backend>> CudaBackend::create() {
  const auto unusable = [](const std::string& reason) {
    return Error{Exit::unavailable, "no usable GPU: " + reason + "; use --device cpu"};
  };
  // All kernels are loaded at start: none may be loaded by the step that first needs it, nor while one is captured.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess)
    return unusable(cudaGetErrorString(status));
  if (count == 0) return unusable("none is visible");
  cudaDeviceProp properties{};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, 0); status != cudaSuccess)
    return unusable(cudaGetErrorString(status));
  if (properties.major < kLeastMajor)
    return unusable(std::string(properties.name) + " has compute capability " + std::to_string(properties.major) + "." +
                    std::to_string(properties.minor) + ", and 8.0 is needed");
  if (const cudaError_t status = cudaSetDevice(0); status != cudaSuccess) return unusable(cudaGetErrorString(status));
  std::unique_ptr<CudaBackend> backend(new CudaBackend);
  if (const cudaError_t status = cudaStreamCreateWithFlags(&backend->stream_, cudaStreamNonBlocking);
      status != cudaSuccess)
    return unusable(cudaGetErrorString(status));
  TRY(counters, backend->allocate(sizeof(DeviceCounters), "counters"));
  backend->counters_memory_ = std::move(counters);
  backend->counters_ = reinterpret_cast<DeviceCounters*>(backend->counters_memory_.data());
  check(cudaMallocHost(&backend->read_counters_, sizeof(DeviceCounters)), "pinned memory");
  return std::unique_ptr<Backend>(std::move(backend));
}

CudaBackend::~CudaBackend() {
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  cudaFreeHost(staging_);
  cudaFreeHost(read_counters_);
  cudaFreeHost(results_);
  cudaStreamDestroy(stream_);
}

Result<Buffer> CudaBackend::allocate(std::size_t bytes, std::string_view purpose) {
  if (bytes == 0) return Buffer();
  void* data = nullptr;
  if (const cudaError_t status = cudaMalloc(&data, bytes); status != cudaSuccess) {
    cudaGetLastError();  // an allocation that fails is no fault
    std::size_t free = 0;
    std::size_t total = 0;
    cudaMemGetInfo(&free, &total);
    return Error{Exit::config, std::string(purpose) + ": needs " + std::to_string(bytes) + " bytes of GPU memory, " +
                                   std::to_string(free) + " of " + std::to_string(total) +
                                   " are free; lower --context or --max-batch, or choose a smaller model"};
  }
  Buffer buffer(static_cast<std::byte*>(data), bytes, [](std::byte* at, std::size_t) { cudaFree(at); });
  zero(data, bytes);
  return buffer;
}

Result<Buffer> CudaBackend::place(Buffer host, std::string_view purpose) {
  TRY(device, allocate(host.size(), purpose));
  const Pinned staging(kStagingBytes);
  for (std::size_t at = 0; at < host.size(); at += kStagingBytes) {
    const std::size_t part = std::min(kStagingBytes, host.size() - at);
    std::memcpy(staging.data, host.data() + at, part);
    check(cudaMemcpyAsync(device.data() + at, staging.data, part, cudaMemcpyHostToDevice, stream_), "upload");
    check(cudaStreamSynchronize(stream_), "upload");
  }
  return std::move(device);
}

void CudaBackend::zero(void* to, std::size_t bytes) { check(cudaMemsetAsync(to, 0, bytes, stream_), "zero"); }

void CudaBackend::copy(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copy");
}

Status CudaBackend::reserve_work(std::size_t bytes) {
  if (work_.size() >= bytes) return {};
  TRY(memory, allocate(bytes, "work memory"));
  outgrown_.push_back(std::move(work_));
  work_ = std::move(memory);
  return {};
}

std::byte* CudaBackend::work(std::size_t bytes) {
  if (bytes > work_.size()) {
    CHECK(!capturing_);  // prepare() has asked for all that steps need
    if (Status status = reserve_work(bytes); !status.ok()) check(cudaErrorMemoryAllocation, "work memory");
  }
  return work_.data();
}

Status CudaBackend::reserve_batch(const StepLimits& limits, int groups) {
  const StepLimits grown{std::max(limits_.rows, limits.rows), std::max(limits_.sequences, limits.sequences),
                         std::max(limits_.logit_rows, limits.logit_rows), std::max(limits_.context, limits.context)};
  const int n_groups = std::max(groups_, groups);
  const auto rows = static_cast<std::size_t>(grown.rows);
  const auto sequences = static_cast<std::size_t>(grown.sequences);
  const std::size_t tables =
      2 + static_cast<std::size_t>(n_groups) * sequences * static_cast<std::size_t>(table_entries(grown));
  const std::size_t bytes =
      (3 * rows + sequences + 1 + static_cast<std::size_t>(grown.logit_rows) + tables) * sizeof(std::int32_t);
  if (bytes > batch_memory_.size()) {
    CHECK(!capturing_);
    TRY(memory, allocate(bytes, "batches"));
    outgrown_.push_back(std::move(batch_memory_));
    batch_memory_ = std::move(memory);
    check(cudaStreamSynchronize(stream_), "batches");
    cudaFreeHost(staging_);
    check(cudaMallocHost(&staging_, bytes), "pinned memory");
  }
  limits_ = grown;
  groups_ = n_groups;
  const auto* place = reinterpret_cast<const std::int32_t*>(batch_memory_.data());
  batch_.tokens = place;
  batch_.positions = batch_.tokens + rows;
  batch_.sequences = batch_.positions + rows;
  batch_.first_rows = batch_.sequences + rows;
  batch_.logit_rows = batch_.first_rows + sequences + 1;
  batch_.tables = batch_.logit_rows + grown.logit_rows;
  return {};
}

Status CudaBackend::prepare(const ModelSpec& spec, const StepLimits& limits) {
  std::size_t bytes = 0;
  const auto refuse = [&](const char* what, int value, int most) {
    return Error{Exit::data, spec.family + ": " + what + " of " + std::to_string(value) + " is more than the " +
                                 std::to_string(most) + " that the cuda backend takes; use --device cpu"};
  };
  const int chunks = ceil_div(std::max(limits.context, limits_.context), kAttentionChunk);
  for (const LayerSpec& layer : spec.layers) {
    const RopeSpec* rope = nullptr;
    int value_dim = 0;
    if (const auto* a = std::get_if<AttentionSpec>(&layer.mixer)) {
      rope = &a->rope;
      value_dim = a->head_dim;
      bytes = std::max(
          bytes, attend_bytes({a->n_kv_heads, a->n_heads / a->n_kv_heads, value_dim, value_dim}, limits.rows, chunks));
    } else if (const auto* latent = std::get_if<LatentAttentionSpec>(&layer.mixer)) {
      rope = &latent->rope;
      value_dim = latent->kv_rank;
      bytes = std::max(bytes, attend_bytes({1, latent->n_heads, latent->cached(), value_dim}, limits.rows, chunks));
    }
    if (rope != nullptr && rope->dim > kMaxRopeDim) return refuse("a rotary dimension", rope->dim, kMaxRopeDim);
    if (value_dim > kMaxValueDim) return refuse("a head dimension", value_dim, kMaxValueDim);
    if (const auto* moe = std::get_if<MoeFfn>(&layer.ffn)) {
      const ExpertShape shape{spec.d_model, moe->d_ff, moe->biases};
      bytes = std::max({bytes, route_bytes(moe->router, limits.rows),
                        experts_bytes(shape, moe->router.n_experts, moe->router.top_k, limits.rows)});
    }
  }
  TRY_STATUS(reserve_work(bytes));
  TRY_STATUS(reserve_batch(limits, static_cast<int>(spec.kv_groups.size())));
  return reserve_results(static_cast<std::size_t>(limits.logit_rows) * static_cast<std::size_t>(spec.vocab));
}

Status CudaBackend::reserve_results(std::size_t floats) {
  if (floats <= results_floats_) return {};
  float* memory = nullptr;
  if (cudaMallocHost(&memory, floats * sizeof(float)) != cudaSuccess) {
    cudaGetLastError();
    return Error{Exit::config, "logits: the system refused " + std::to_string(floats * sizeof(float)) +
                                   " bytes of pinned memory; lower --max-batch or raise the limit on locked memory"};
  }
  cudaFreeHost(results_);
  results_ = memory;
  results_floats_ = floats;
  return {};
}

void CudaBackend::begin(const Batch& batch) {
  const int rows = batch.rows();
  const auto n_sequences = static_cast<int>(batch.sequences.size());
  const auto n_logits = static_cast<int>(batch.logit_rows.size());
  std::size_t entries = 1;
  std::size_t groups = 0;
  most_keys_ = 0;
  for (const SequenceRows& sequence : batch.sequences) {
    groups = sequence.tables.size();
    for (const auto& table : sequence.tables) entries = std::max(entries, table.size());
    most_keys_ = std::max(most_keys_, sequence.position + sequence.rows);
  }
  const StepLimits needed{rows, n_sequences, n_logits, static_cast<int>(entries) * kBlockTokens};
  if (needed.rows > limits_.rows || needed.sequences > limits_.sequences || needed.logit_rows > limits_.logit_rows ||
      needed.context > limits_.context || static_cast<int>(groups) > groups_) {
    if (Status status = reserve_batch(needed, static_cast<int>(groups)); !status.ok())
      check(cudaErrorMemoryAllocation, "batches");
  }
  const auto* start = reinterpret_cast<const std::int32_t*>(batch_memory_.data());
  const auto at = [&](const std::int32_t* device) { return staging_ + (device - start); };
  std::copy(batch.tokens.begin(), batch.tokens.end(), at(batch_.tokens));
  std::copy(batch.positions.begin(), batch.positions.end(), at(batch_.positions));
  std::copy(batch.logit_rows.begin(), batch.logit_rows.end(), at(batch_.logit_rows));
  std::int32_t* first_rows = at(batch_.first_rows);
  std::int32_t* tables = at(batch_.tables);
  tables[0] = static_cast<std::int32_t>(entries);
  tables[1] = n_sequences;
  for (int s = 0; s < n_sequences; ++s) {
    const SequenceRows& sequence = batch.sequences[static_cast<std::size_t>(s)];
    first_rows[s] = sequence.first_row;
    std::fill_n(at(batch_.sequences) + sequence.first_row, sequence.rows, s);
    for (std::size_t g = 0; g < groups; ++g) {
      const std::size_t place = (g * batch.sequences.size() + static_cast<std::size_t>(s)) * entries;
      std::copy(sequence.tables[g].begin(), sequence.tables[g].end(), tables + 2 + place);
    }
  }
  first_rows[n_sequences] = rows;
  const std::size_t used =
      static_cast<std::size_t>(batch_.tables - start) + 2 + groups * batch.sequences.size() * entries;
  check(cudaMemcpyAsync(batch_memory_.data(), staging_, used * sizeof(std::int32_t), cudaMemcpyHostToDevice, stream_),
        "batch");
  zero(counters_, sizeof(DeviceCounters));
}

Rows CudaBackend::finish(Rows rows) {
  const std::size_t floats = static_cast<std::size_t>(rows.rows) * static_cast<std::size_t>(rows.cols);
  CHECK(rows.stride == rows.cols && floats <= results_floats_);
  copy(results_, rows.data, floats * sizeof(float));
  copy(read_counters_, counters_, sizeof(DeviceCounters));
  check(cudaStreamSynchronize(stream_), "a step");
  return {results_, rows.rows, rows.cols};
}

StepCounters CudaBackend::counters() const {
  return {static_cast<std::int64_t>(read_counters_->experts_touched),
          static_cast<double>(read_counters_->route_ns) * 1e-9};
}

std::unique_ptr<CapturedStep> CudaBackend::capture(const std::function<void()>& enqueue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  capturing_ = true;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  enqueue();
  check(cudaStreamEndCapture(stream_, &graph), "capture");
  capturing_ = false;
  check(cudaGraphInstantiate(&runnable, graph, 0), "capture");
  check(cudaGraphDestroy(graph), "capture");
  check(cudaGraphUpload(runnable, stream_), "capture");
  return std::make_unique<CapturedGraph>(runnable, batch_);
}

void CudaBackend::replay(const CapturedStep& step) {
  const auto& captured = static_cast<const CapturedGraph&>(step);
  CHECK(captured.reads(batch_));
  check(cudaGraphLaunch(captured.graph(), stream_), "a captured step");
}

}  // namespace colibri::cuda
