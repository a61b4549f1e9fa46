// SPDX-License-Identifier: Apache-2.0
// The routed experts of one layer: the dispatch table in one launch, gate and up with the activation, down for each
// (row, slot) pair, and the sum of a row's slots in their order.
// Invariant: a pair's result depends on its row and its expert alone; the dispatch table only says who shares a pass
// over the weights.
#include "backend/cuda/linear.cuh"
#include "base/check.h"

namespace colibri::cuda {
namespace {

constexpr int kDispatchThreads = 1024;
constexpr int kStagedIds = 2048;

/// At most R pairs of one expert: pairs[first .. first + tokens) of the dispatch table.
struct ExpertBlock {
  std::int32_t expert;
  std::int32_t first;
  std::int32_t tokens;
};

/// What one layer's kernels hand to each other, in the work memory.
struct Dispatch {
  std::int32_t* pairs;  // [n_pairs], grouped by expert and ascending: row * top_k + slot
  ExpertBlock* blocks;  // [most_blocks]
  std::int32_t* n_blocks;
  float* hidden;  // [n_pairs, hidden_stride], in the order of `pairs`
  float* parts;   // [n_pairs, d_model], by pair
  int n_pairs;
  int most_blocks;
  int hidden_stride;
  std::size_t bytes;
};

Dispatch lay_out(std::byte* memory, const ExpertShape& shape, int n_experts, int n_pairs, int per_block) {
  Dispatch d{};
  d.n_pairs = n_pairs;
  d.most_blocks = std::min(n_pairs, n_pairs / per_block + n_experts);
  d.hidden_stride = round_up(shape.d_ff, 2);
  std::size_t used = 0;
  const auto take = [&](std::size_t count, std::size_t size) {
    std::byte* place = memory + used;
    used += round_up(count * size, 256);
    return place;
  };
  const auto pairs = static_cast<std::size_t>(n_pairs);
  d.pairs = reinterpret_cast<std::int32_t*>(take(pairs, sizeof(std::int32_t)));
  d.blocks = reinterpret_cast<ExpertBlock*>(take(static_cast<std::size_t>(d.most_blocks), sizeof(ExpertBlock)));
  d.n_blocks = reinterpret_cast<std::int32_t*>(take(1, sizeof(std::int32_t)));
  d.hidden = reinterpret_cast<float*>(take(pairs * static_cast<std::size_t>(d.hidden_stride), sizeof(float)));
  d.parts = reinterpret_cast<float*>(take(pairs * static_cast<std::size_t>(shape.d_model), sizeof(float)));
  d.bytes = used;
  return d;
}

/// One block of threads; thread t owns the experts [t * own, (t + 1) * own).
__global__ void __launch_bounds__(kDispatchThreads)
    dispatch_kernel(const std::int32_t* ids, int n_experts, int per_block, Dispatch d, DeviceCounters* counters) {
  __shared__ std::int32_t staged[kStagedIds];
  __shared__ std::uint64_t warp_totals[kDispatchThreads / kWarp];
  const int own = (n_experts + kDispatchThreads - 1) / kDispatchThreads;
  const int first_expert = static_cast<int>(threadIdx.x) * own;
  const int last_expert = min(first_expert + own, n_experts);
  // Calls f(pair) for the pairs of `expert`, ascending. All threads take part, also those without an expert.
  const auto for_pairs = [&](int expert, auto f) {
    for (int start = 0; start < d.n_pairs; start += kStagedIds) {
      const int count = min(kStagedIds, d.n_pairs - start);
      __syncthreads();
      for (int i = threadIdx.x; i < count; i += kDispatchThreads) staged[i] = ids[start + i];
      __syncthreads();
      if (expert >= n_experts) continue;
      for (int i = 0; i < count; ++i)
        if (staged[i] == expert) f(start + i);
    }
  };
  // Tokens in the upper half, blocks in the lower, so that one scan sums both.
  std::uint64_t mine = 0;
  int awake = 0;
  for (int i = 0; i < own; ++i) {
    std::uint32_t tokens = 0;
    for_pairs(first_expert + i, [&](int) { ++tokens; });
    if (first_expert + i >= last_expert) continue;
    awake += tokens > 0 ? 1 : 0;
    mine += static_cast<std::uint64_t>(tokens) << 32 | (tokens + per_block - 1) / per_block;
  }
  const int lane = threadIdx.x % kWarp;
  std::uint64_t sum = mine;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const std::uint64_t before = __shfl_up_sync(kAllLanes, sum, offset);
    if (lane >= offset) sum += before;
  }
  if (lane == kWarp - 1) warp_totals[threadIdx.x / kWarp] = sum;
  __syncthreads();
  std::uint64_t start = sum - mine;
  for (int w = 0; w < static_cast<int>(threadIdx.x) / kWarp; ++w) start += warp_totals[w];
  auto next_pair = static_cast<std::int32_t>(start >> 32);
  auto next_block = static_cast<std::int32_t>(start);
  for (int i = 0; i < own; ++i) {
    const std::int32_t first = next_pair;
    for_pairs(first_expert + i, [&](int pair) { d.pairs[next_pair++] = pair; });
    for (std::int32_t at = first; at < next_pair; at += per_block)
      d.blocks[next_block++] = {first_expert + i, at, min(per_block, next_pair - at)};
  }
  if (threadIdx.x == kDispatchThreads - 1) *d.n_blocks = next_block;
  if (awake > 0) atomicAdd(&counters->experts_touched, static_cast<unsigned long long>(awake));
  if (threadIdx.x == 0) counters->route_ns += now_ns() - counters->route_start_ns;
}

struct Gate {
  bool clamped;
  float alpha;
  float limit;
};

__device__ float activate(const Gate& activation, float gate, float up) {
  if (!activation.clamped) return silu(gate) * up;
  const float g = fminf(gate, activation.limit);
  const float u = fminf(fmaxf(up, -activation.limit), activation.limit);
  return g / (1.0F + expf(-activation.alpha * g)) * (u + 1.0F);
}

template <int R>
__global__ void __launch_bounds__(kProductThreads)
    gate_up_kernel(ConstPlace x, bool is_paired, int top_k, const std::byte* const* records, ExpertShape shape,
                   Gate activation, Dispatch d) {
  __shared__ ProductShared<R> gate_parts;
  __shared__ ProductShared<R> up_parts;
  if (static_cast<int>(blockIdx.x) >= *d.n_blocks) return;
  const ExpertBlock block = d.blocks[blockIdx.x];
  const std::byte* record = records[block.expert];
  const int cols = shape.d_model;
  const float* rows[R];
  for (int r = 0; r < R; ++r) rows[r] = x.row(d.pairs[block.first + min(r, block.tokens - 1)] / top_k);
  const auto tile = static_cast<int>(blockIdx.y);
  float gate = tile_product<R>(tile_of(record, cols, tile), cols, rows, block.tokens, is_paired, gate_parts);
  float up =
      tile_product<R>(tile_of(record + shape.up_offset(), cols, tile), cols, rows, block.tokens, is_paired, up_parts);
  const int row = static_cast<int>(threadIdx.x) / kTileRows;
  const int i = tile * kTileRows + static_cast<int>(threadIdx.x) % kTileRows;
  if (threadIdx.x >= R * kTileRows || row >= block.tokens || i >= shape.d_ff) return;
  if (shape.biases) {
    const auto* bias = reinterpret_cast<const float*>(record + shape.gate_up_bias_offset());
    gate += bias[i];
    up += bias[shape.d_ff + i];
  }
  d.hidden[static_cast<std::ptrdiff_t>(block.first + row) * d.hidden_stride + i] = activate(activation, gate, up);
}

template <int R>
__global__ void __launch_bounds__(kProductThreads)
    down_kernel(const std::byte* const* records, ExpertShape shape, Dispatch d) {
  __shared__ ProductShared<R> shared;
  if (static_cast<int>(blockIdx.x) >= *d.n_blocks) return;
  const ExpertBlock block = d.blocks[blockIdx.x];
  const std::byte* record = records[block.expert];
  const float* rows[R];
  for (int r = 0; r < R; ++r)
    rows[r] = d.hidden + static_cast<std::ptrdiff_t>(block.first + min(r, block.tokens - 1)) * d.hidden_stride;
  const auto tile = static_cast<int>(blockIdx.y);
  const float sum = tile_product<R>(tile_of(record + shape.down_offset(), shape.d_ff, tile), shape.d_ff, rows,
                                    block.tokens, shape.d_ff % 2 == 0, shared);
  const int row = static_cast<int>(threadIdx.x) / kTileRows;
  const int i = tile * kTileRows + static_cast<int>(threadIdx.x) % kTileRows;
  if (threadIdx.x >= R * kTileRows || row >= block.tokens || i >= shape.d_model) return;
  const float bias = shape.biases ? reinterpret_cast<const float*>(record + shape.down_bias_offset())[i] : 0.0F;
  d.parts[static_cast<std::ptrdiff_t>(d.pairs[block.first + row]) * shape.d_model + i] = sum + bias;
}

__global__ void combine_kernel(const float* weights, int top_k, const float* parts, int cols, Place out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= cols) return;
  const int row = blockIdx.y;
  float sum = 0.0F;
  for (int pair = row * top_k; pair < (row + 1) * top_k; ++pair)
    sum = fmaf(weights[pair], parts[static_cast<std::ptrdiff_t>(pair) * cols + i], sum);
  out.row(row)[i] += sum;
}

}  // namespace

std::size_t CudaBackend::experts_bytes(const ExpertShape& shape, int n_experts, int top_k, int rows) {
  return lay_out(nullptr, shape, n_experts, rows * top_k, 1).bytes;
}

template <int R>
void CudaBackend::run_experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out) {
  constexpr int kThreads = 256;
  const ExpertShape& shape = table.shape;
  const auto n_experts = static_cast<int>(table.records.size());
  const Dispatch d = lay_out(work(experts_bytes(shape, n_experts, routing.top_k, x.rows)), shape, n_experts,
                             x.rows * routing.top_k, R);
  Gate gate{};
  if (const auto* clamped = std::get_if<ClampedGate>(&table.activation)) gate = {true, clamped->alpha, clamped->limit};
  dispatch_kernel<<<1, kDispatchThreads, 0, stream_>>>(routing.ids.data(), n_experts, R, d, counters_);
  gate_up_kernel<R><<<dim3(d.most_blocks, ceil_div(shape.d_ff, kTileRows)), kProductThreads, 0, stream_>>>(
      on_device(x), paired(x), routing.top_k, table.records.data(), shape, gate, d);
  down_kernel<R><<<dim3(d.most_blocks, ceil_div(shape.d_model, kTileRows)), kProductThreads, 0, stream_>>>(
      table.records.data(), shape, d);
  combine_kernel<<<dim3(ceil_div(shape.d_model, kThreads), x.rows), kThreads, 0, stream_>>>(
      routing.weights.data(), routing.top_k, d.parts, shape.d_model, on_device(out));
  check(cudaGetLastError(), "experts");
}

void CudaBackend::experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out) {
  CHECK(x.rows == out.rows && x.cols == table.shape.d_model && out.cols == x.cols && routing.top_k >= 1);
  CHECK(routing.ids.size() == static_cast<std::size_t>(x.rows) * static_cast<std::size_t>(routing.top_k));
  CHECK(routing.weights.size() == routing.ids.size());
  if (x.rows == 0) return;
  if (x.rows <= 4) {
    run_experts<1>(x, routing, table, out);
  } else if (x.rows <= 64) {
    run_experts<4>(x, routing, table, out);
  } else {
    run_experts<8>(x, routing, table, out);
  }
}

}  // namespace colibri::cuda
