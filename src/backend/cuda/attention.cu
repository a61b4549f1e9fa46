// SPDX-License-Identifier: Apache-2.0
// Causal attention over the paged cache, of keys and values or of latents. A block of threads takes some query heads
// of one row that read the same cached head, over all chunks of 128 keys or over one.
// Invariant: chunks end at multiples of 128 in absolute position; each has its maximum, its sum and its weighted
// values, and these are merged in the order of chunks, by one block or by the kernel that follows. So a row's result
// depends on its position and the cache alone.
#include "backend/cuda/device.cuh"
#include "base/check.h"

namespace colibri::cuda {
namespace {

constexpr int kChunk = kAttentionChunk;
constexpr int kThreads = 128;  // one for each key of a chunk, or for each value
constexpr int kWarps = kThreads / kWarp;
constexpr int kHeads = 8;          // most query heads of a block
constexpr int kSplitBlocks = 132;  // with fewer blocks than multiprocessors each chunk gets a block of its own

/// The cache of a layer with keys and values per head.
struct HeadCache {
  KvView kv;

  __device__ const float* keys(std::int32_t block, int head) const {
    return kv.base + block * kv.block_stride + static_cast<std::ptrdiff_t>(head) * kv.head_dim * kBlockTokens;
  }
  __device__ const float* value(std::int32_t block, int head, int slot) const {
    return keys(block, kv.n_kv_heads + head) + slot * kv.head_dim;
  }
  /// scores[h][key] of the keys [from, to) of a chunk, a thread each. `blocks` are the chunk's, queries [H][dim].
  template <int H>
  __device__ void score(const float* queries, int dim, const std::int32_t* blocks, int head, int from, int to,
                        float (*scores)[kChunk]) const {
    const int key = threadIdx.x;
    if (key < from || key >= to) return;
    const float* at = keys(blocks[key / kBlockTokens], head) + key % kBlockTokens;
    float sums[H] = {};
#pragma unroll 32
    for (int d = 0; d < dim; ++d) {
      const float value = at[d * kBlockTokens];
#pragma unroll
      for (int h = 0; h < H; ++h) sums[h] = fmaf(queries[h * dim + d], value, sums[h]);
    }
#pragma unroll
    for (int h = 0; h < H; ++h) scores[h][key] = sums[h];
  }
};

/// The cache of a layer with latents, which all heads read; a warp for each key.
struct LatentCache {
  LatentView latents;

  __device__ const float* value(std::int32_t block, int, int slot) const {
    return latents.base + block * latents.block_stride + static_cast<std::ptrdiff_t>(slot) * latents.dim;
  }
  template <int H>
  __device__ void score(const float* queries, int dim, const std::int32_t* blocks, int head, int from, int to,
                        float (*scores)[kChunk]) const {
    for (int key = static_cast<int>(threadIdx.x) / kWarp; key < to; key += kWarps) {
      if (key < from) continue;
      const float* at = value(blocks[key / kBlockTokens], head, key % kBlockTokens);
      float sums[H] = {};
      for (int d = threadIdx.x % kWarp; d < dim; d += kWarp) {
        const float item = at[d];
#pragma unroll
        for (int h = 0; h < H; ++h) sums[h] = fmaf(queries[h * dim + d], item, sums[h]);
      }
#pragma unroll
      for (int h = 0; h < H; ++h) {
        const float sum = warp_sum(sums[h]);
        if (threadIdx.x % kWarp == 0) scores[h][key] = sum;
      }
    }
  }
};

struct Spec {
  int group;  // query heads of a cached head
  int parts;  // blocks of heads that a group is cut into
  int key_dim;
  int value_dim;
  float scale;
  int window;
  int kv_group;
  const float* sinks;
};

/// What has been summed over some chunks: this thread's values of each head.
template <int H, int V>
struct Sums {
  float most[H];
  float total[H];
  float values[H][V];

  __device__ void clear() {
    for (int h = 0; h < H; ++h) {
      most[h] = -INFINITY;
      total[h] = 0.0F;
      for (int i = 0; i < V; ++i) values[h][i] = 0.0F;
    }
  }
  /// Of head h: joins what was summed relative to `other_most`.
  __device__ void join(int h, float other_most, float other_total, const float (&other)[V]) {
    const float larger = fmaxf(most[h], other_most);
    const float keep = expf(most[h] - larger);
    const float add = expf(other_most - larger);
    most[h] = larger;
    total[h] = fmaf(total[h], keep, other_total * add);
#pragma unroll
    for (int i = 0; i < V; ++i) values[h][i] = fmaf(values[h][i], keep, other[i] * add);
  }
  /// Writes the quotients of head h, the sink's score included.
  __device__ void finish(int h, const float* sink, int value_dim, float* out) {
    if (sink != nullptr) {
      const float none[V] = {};
      join(h, *sink, 1.0F, none);
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const int d = static_cast<int>(threadIdx.x) + i * kThreads;
      if (d < value_dim) out[d] = values[h][i] / total[h];
    }
  }
};

__device__ inline int first_key(const Spec& spec, int position) {
  return spec.window > 0 ? max(0, position - spec.window + 1) : 0;
}

/// Where a block's partial sums of one chunk stand: [H] of most, total, values [value_dim].
__device__ inline float* partial_of(float* partials, int chunks, int chunk, int heads, int value_dim) {
  const std::ptrdiff_t block = (static_cast<std::ptrdiff_t>(blockIdx.x) * gridDim.y + blockIdx.y) * chunks + chunk;
  return partials + block * heads * (value_dim + 2);
}

/// Grid: rows, cached heads x parts, chunks where `partials` is given.
template <int H, int V, class Cache>
__global__ void __launch_bounds__(kThreads)
    attend_kernel(DeviceBatch batch, ConstPlace q, Spec spec, Cache cache, float* partials, Place out) {
  extern __shared__ float queries[];  // [H][key_dim]
  __shared__ float scores[H][kChunk];
  __shared__ float chunk_most[H];
  __shared__ float chunk_total[H];
  __shared__ std::int32_t blocks[kChunk / kBlockTokens];

  const int row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y) / spec.parts;  // cached
  const int first_head = static_cast<int>(blockIdx.y) % spec.parts * H;
  const int n = min(H, spec.group - first_head);
  const int query_head = head * spec.group + first_head;
  const int position = batch.positions[row];
  const int first = first_key(spec, position);
  const int first_chunk = first / kChunk + static_cast<int>(blockIdx.z);
  const int last_chunk = partials == nullptr ? position / kChunk : first_chunk;
  if (first_chunk > position / kChunk) return;

  for (int i = threadIdx.x; i < H * spec.key_dim; i += kThreads)
    queries[i] = i < n * spec.key_dim ? q.row(row)[query_head * spec.key_dim + i] : 0.0F;
  Sums<H, V> sums;
  sums.clear();
  const int lane = threadIdx.x % kWarp;
  for (int chunk = first_chunk; chunk <= last_chunk; ++chunk) {
    const int from = max(first - chunk * kChunk, 0);
    const int to = min(position + 1 - chunk * kChunk, kChunk);
    __syncthreads();
    if (threadIdx.x >= from / kBlockTokens && threadIdx.x < (to + kBlockTokens - 1) / kBlockTokens)
      blocks[threadIdx.x] = table_entry(batch, spec.kv_group, batch.sequences[row],
                                        chunk * (kChunk / kBlockTokens) + static_cast<int>(threadIdx.x));
    __syncthreads();
    cache.template score<H>(queries, spec.key_dim, blocks, head, from, to, scores);
    __syncthreads();
    for (int h = static_cast<int>(threadIdx.x) / kWarp; h < H; h += kWarps) {
      float most = -INFINITY;
      for (int key = lane; key < kChunk; key += kWarp) {
        const float score = key >= from && key < to ? scores[h][key] * spec.scale : -INFINITY;
        scores[h][key] = score;
        most = fmaxf(most, score);
      }
      most = warp_max(most);
      float total = 0.0F;
      for (int key = lane; key < kChunk; key += kWarp) {
        const float weight = expf(scores[h][key] - most);
        scores[h][key] = weight;
        total += weight;
      }
      total = warp_sum(total);
      if (lane == 0) {
        chunk_most[h] = most;
        chunk_total[h] = total;
      }
    }
    __syncthreads();
    float values[H][V] = {};
    for (int block = from / kBlockTokens; block * kBlockTokens < to; ++block) {
      const auto add = [&](int slot) {
        const float* value = cache.value(blocks[block], head, slot);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          const int d = static_cast<int>(threadIdx.x) + i * kThreads;
          const float item = d < spec.value_dim ? value[d] : 0.0F;
#pragma unroll
          for (int h = 0; h < H; ++h) values[h][i] = fmaf(scores[h][block * kBlockTokens + slot], item, values[h][i]);
        }
      };
      const int first_slot = max(from - block * kBlockTokens, 0);
      const int last_slot = min(to - block * kBlockTokens, kBlockTokens);
      if (last_slot - first_slot == kBlockTokens) {
#pragma unroll
        for (int slot = 0; slot < kBlockTokens; ++slot) add(slot);  // so that all loads are in flight together
      } else {
        for (int slot = first_slot; slot < last_slot; ++slot) add(slot);
      }
    }
#pragma unroll
    for (int h = 0; h < H; ++h) sums.join(h, chunk_most[h], chunk_total[h], values[h]);
  }
#pragma unroll
  for (int h = 0; h < H; ++h) {
    if (h >= n) break;
    if (partials == nullptr) {
      const float* sink = spec.sinks == nullptr ? nullptr : spec.sinks + query_head + h;
      sums.finish(h, sink, spec.value_dim, out.row(row) + (query_head + h) * spec.value_dim);
      continue;
    }
    float* to = partial_of(partials, static_cast<int>(gridDim.z), static_cast<int>(blockIdx.z), H, spec.value_dim) +
                h * (spec.value_dim + 2);
    if (threadIdx.x == 0) {
      to[0] = sums.most[h];
      to[1] = sums.total[h];
    }
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const int d = static_cast<int>(threadIdx.x) + i * kThreads;
      if (d < spec.value_dim) to[2 + d] = sums.values[h][i];
    }
  }
}

/// Grid: as attend_kernel's, and one block for each head in z.
template <int H, int V>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(DeviceBatch batch, Spec spec, float* partials, int chunks, Place out) {
  const int row = blockIdx.x;
  const int h = blockIdx.z;
  const int first_head = static_cast<int>(blockIdx.y) % spec.parts * H;
  if (h >= min(H, spec.group - first_head)) return;
  const int query_head = static_cast<int>(blockIdx.y) / spec.parts * spec.group + first_head + h;
  const int position = batch.positions[row];
  const int count = position / kChunk - first_key(spec, position) / kChunk + 1;
  Sums<1, V> sums;
  sums.clear();
  for (int chunk = 0; chunk < count; ++chunk) {
    const float* from = partial_of(partials, chunks, chunk, H, spec.value_dim) + h * (spec.value_dim + 2);
    float values[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const int d = static_cast<int>(threadIdx.x) + i * kThreads;
      values[i] = d < spec.value_dim ? from[2 + d] : 0.0F;
    }
    sums.join(0, from[0], from[1], values);
  }
  const float* sink = spec.sinks == nullptr ? nullptr : spec.sinks + query_head;
  sums.finish(0, sink, spec.value_dim, out.row(row) + query_head * spec.value_dim);
}

/// Query heads of a block: as many as share a cached head, in powers of two.
int heads_of_a_block(int group) { return group == 1 ? 1 : group <= 4 ? 4 : kHeads; }

template <int H, int V, class Cache>
void launch(cudaStream_t stream, const DeviceBatch& batch, ConstRows q, int blocks, const Spec& spec,
            const Cache& cache, float* partials, int chunks, Rows out) {
  const std::size_t shared = static_cast<std::size_t>(H) * static_cast<std::size_t>(spec.key_dim) * sizeof(float);
  attend_kernel<H, V, Cache><<<dim3(q.rows, blocks, partials == nullptr ? 1 : chunks), kThreads, shared, stream>>>(
      batch, on_device(q), spec, cache, partials, on_device(out));
  if (partials != nullptr) {
    merge_kernel<H, V><<<dim3(q.rows, blocks, H), kThreads, 0, stream>>>(batch, spec, partials, chunks, on_device(out));
  }
  check(cudaGetLastError(), "attention");
}

}  // namespace

int CudaBackend::most_chunks(int window) const {
  const int all = ceil_div(capturing_ ? limits_.context : most_keys_, kChunk);
  return window > 0 ? std::min(all, window / kChunk + 2) : all;
}

std::size_t CudaBackend::attend_bytes(const Heads& heads, int rows, int chunks) {
  const int per_block = heads_of_a_block(heads.group);
  const int blocks = rows * heads.count * ceil_div(heads.group, per_block);
  return static_cast<std::size_t>(std::min(blocks, kSplitBlocks)) * static_cast<std::size_t>(chunks) *
         static_cast<std::size_t>(per_block * (heads.value_dim + 2)) * sizeof(float);
}

template <class Cache>
void CudaBackend::attend(ConstRows q, const Heads& heads, const Cache& cache, Rows out) {
  if (q.rows == 0) return;
  const int per_block = heads_of_a_block(heads.group);
  const Spec spec{heads.group,    ceil_div(heads.group, per_block),
                  heads.key_dim,  heads.value_dim,
                  heads.scale,    heads.window,
                  heads.kv_group, heads.sinks};
  const int blocks = heads.count * spec.parts;
  const int chunks = most_chunks(heads.window);
  float* partials = nullptr;
  if (q.rows * blocks < kSplitBlocks && chunks > 1)
    partials = reinterpret_cast<float*>(work(attend_bytes(heads, q.rows, chunks)));
  const auto run = [&]<int H>(std::integral_constant<int, H>) {
    if (heads.value_dim <= kThreads) {
      launch<H, 1>(stream_, batch_, q, blocks, spec, cache, partials, chunks, out);
    } else if (heads.value_dim <= 2 * kThreads) {
      launch<H, 2>(stream_, batch_, q, blocks, spec, cache, partials, chunks, out);
    } else {
      launch<H, 4>(stream_, batch_, q, blocks, spec, cache, partials, chunks, out);
    }
  };
  if (per_block == 1) {
    run(std::integral_constant<int, 1>());
  } else if (per_block == 4) {
    run(std::integral_constant<int, 4>());
  } else {
    run(std::integral_constant<int, kHeads>());
  }
}

void CudaBackend::attention(ConstRows q, const AttentionSpec& spec, std::span<const float> sinks, const Batch& batch,
                            const KvView& kv, Rows out) {
  CHECK(q.rows == batch.rows() && out.rows == q.rows && q.cols == spec.q_cols() && out.cols == q.cols);
  CHECK(spec.n_kv_heads > 0 && spec.n_heads % spec.n_kv_heads == 0 && spec.head_dim <= kMaxValueDim);
  CHECK(static_cast<int>(sinks.size()) == (spec.sinks ? spec.n_heads : 0));
  attend(q,
         {spec.n_kv_heads, spec.n_heads / spec.n_kv_heads, spec.head_dim, spec.head_dim, spec.scale, spec.window,
          spec.kv_group, sinks.empty() ? nullptr : sinks.data()},
         HeadCache{kv}, out);
}

void CudaBackend::latent_attention(ConstRows queries, const LatentAttentionSpec& spec, const Batch& batch,
                                   const LatentView& cache, Rows out) {
  CHECK(queries.rows == batch.rows() && out.rows == queries.rows && spec.kv_rank <= kMaxValueDim);
  CHECK(queries.cols == spec.n_heads * spec.cached() && out.cols == spec.n_heads * spec.kv_rank);
  attend(queries, {1, spec.n_heads, spec.cached(), spec.kv_rank, spec.scale, 0, spec.kv_group, nullptr},
         LatentCache{cache}, out);
}

}  // namespace colibri::cuda
