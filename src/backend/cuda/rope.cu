// SPDX-License-Identifier: Apache-2.0
// Rotary embedding of queries and keys, and the way of keys and values, or of latents, into the cache. A block of
// threads for each row and head.
// Invariant: the angle is the fp32 product of position and frequency, as in Hugging Face.
#include "backend/cuda/device.cuh"
#include "base/check.h"

namespace colibri::cuda {
namespace {

constexpr int kThreads = 128;

/// RopeSpec as kernels take it: frequencies are an argument, so that a captured step holds them.
struct Rope {
  int dim;
  float scale;
  bool halves;
  float inv_freq[kMaxRopeDim / 2];

  /// The values of pair i: indices into the rotated part.
  __device__ int first(int i) const { return halves ? i : 2 * i; }
  __device__ int second(int i) const { return halves ? i + dim / 2 : 2 * i + 1; }
  __device__ void turn(int position, int i, float& a, float& b) const {
    float sin = 0.0F;
    float cos = 0.0F;
    sincosf(static_cast<float>(position) * inv_freq[i], &sin, &cos);
    sin *= scale;
    cos *= scale;
    const float x = a;
    a = fmaf(x, cos, -(b * sin));
    b = fmaf(b, cos, x * sin);
  }
};

Rope rope_of(const RopeSpec& spec) {
  CHECK(spec.dim <= kMaxRopeDim && static_cast<int>(spec.inv_freq.size()) == spec.dim / 2);
  Rope rope{spec.dim, spec.scale, spec.pairs == RopePairs::halves, {}};
  std::copy(spec.inv_freq.begin(), spec.inv_freq.end(), rope.inv_freq);
  return rope;
}

/// RMSNorm of a head in place, by all threads.
__device__ void norm_head(float* head, int dim, const float* weight, float eps) {
  float squares = 0.0F;
  for (int i = threadIdx.x; i < dim; i += kThreads) squares = fmaf(head[i], head[i], squares);
  const float factor = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(dim) + eps);
  for (int i = threadIdx.x; i < dim; i += kThreads) head[i] = head[i] * factor * weight[i];
  __syncthreads();
}

struct Norms {
  const float* q;
  const float* k;
  float eps;
  bool before;  // the rotation
  bool after;
};

__global__ void rope_kernel(DeviceBatch batch, Place q, Place k, ConstPlace v, int n_heads, int dim, Rope rope,
                            Norms norms, KvView kv, int kv_group) {
  const int row = blockIdx.x;
  const bool is_key = static_cast<int>(blockIdx.y) >= n_heads;
  const int h = static_cast<int>(blockIdx.y) - (is_key ? n_heads : 0);
  float* head = (is_key ? k : q).row(row) + h * dim;
  const float* weight = is_key ? norms.k : norms.q;
  const int position = batch.positions[row];
  if (norms.before) norm_head(head, dim, weight, norms.eps);
  for (int i = threadIdx.x; i < rope.dim / 2; i += kThreads)
    rope.turn(position, i, head[rope.first(i)], head[rope.second(i)]);
  __syncthreads();
  if (norms.after) norm_head(head, dim, weight, norms.eps);
  if (!is_key) return;
  const std::int32_t block = table_entry(batch, kv_group, batch.sequences[row], position / kBlockTokens);
  const int slot = position % kBlockTokens;
  const std::ptrdiff_t head_floats = static_cast<std::ptrdiff_t>(dim) * kBlockTokens;
  float* keys = kv.base + block * kv.block_stride + h * head_floats;
  float* values = keys + kv.n_kv_heads * head_floats;
  const float* value = v.row(row) + h * dim;
  for (int d = threadIdx.x; d < dim; d += kThreads) {
    keys[d * kBlockTokens + slot] = head[d];
    values[slot * dim + d] = value[d];
  }
}

/// Block y < n_heads turns a query's rotary part to its place; the last one stores the latent.
__global__ void latent_rope_kernel(DeviceBatch batch, ConstPlace q, ConstPlace latents, int n_heads, int kv_rank,
                                   int nope_dim, Rope rope, const float* kv_norm, float eps, LatentView cache,
                                   int kv_group, Place queries) {
  const int row = blockIdx.x;
  const int h = blockIdx.y;
  const int position = batch.positions[row];
  const float* from = nullptr;
  float* to = nullptr;
  if (h < n_heads) {
    from = q.row(row) + h * (nope_dim + rope.dim) + nope_dim;
    to = queries.row(row) + h * (kv_rank + rope.dim) + kv_rank;
  } else {
    const std::int32_t block = table_entry(batch, kv_group, batch.sequences[row], position / kBlockTokens);
    float* cached =
        cache.base + block * cache.block_stride + static_cast<std::ptrdiff_t>(position % kBlockTokens) * cache.dim;
    const float* latent = latents.row(row);
    float squares = 0.0F;
    for (int i = threadIdx.x; i < kv_rank; i += kThreads) squares = fmaf(latent[i], latent[i], squares);
    const float factor = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(kv_rank) + eps);
    for (int i = threadIdx.x; i < kv_rank; i += kThreads) cached[i] = latent[i] * factor * kv_norm[i];
    from = latent + kv_rank;
    to = cached + kv_rank;
  }
  for (int i = threadIdx.x; i < rope.dim / 2; i += kThreads) {
    float a = from[rope.first(i)];
    float b = from[rope.second(i)];
    rope.turn(position, i, a, b);
    to[i] = a;
    to[rope.dim / 2 + i] = b;
  }
}

}  // namespace

void CudaBackend::rope_and_store(Rows q, Rows k, ConstRows v, const AttentionSpec& spec, std::span<const float> q_norm,
                                 std::span<const float> k_norm, float eps, const Batch& batch, const KvView& kv) {
  CHECK(q.rows == batch.rows() && k.rows == q.rows && v.rows == q.rows);
  CHECK(q.cols == spec.q_cols() && k.cols == spec.kv_cols() && v.cols == k.cols);
  CHECK(kv.head_dim == spec.head_dim && kv.n_kv_heads == spec.n_kv_heads && spec.rope.dim <= spec.head_dim);
  if (q.rows == 0) return;
  if (spec.qk_norm == QkNorm::full) {
    rms_norm(q, q_norm, eps, q);
    rms_norm(k, k_norm, eps, k);
  }
  const Norms norms{q_norm.data(), k_norm.data(), eps, spec.qk_norm == QkNorm::per_head,
                    spec.qk_norm == QkNorm::per_head_turned};
  rope_kernel<<<dim3(q.rows, spec.n_heads + spec.n_kv_heads), kThreads, 0, stream_>>>(
      batch_, on_device(q), on_device(k), on_device(v), spec.n_heads, spec.head_dim, rope_of(spec.rope), norms, kv,
      spec.kv_group);
  check(cudaGetLastError(), "rope_and_store");
}

void CudaBackend::latent_rope_and_store(ConstRows q, ConstRows latents, const LatentAttentionSpec& spec,
                                        std::span<const float> kv_norm, const Batch& batch, const LatentView& cache,
                                        Rows queries) {
  CHECK(q.rows == batch.rows() && latents.rows == q.rows && queries.rows == q.rows);
  CHECK(q.cols == spec.n_heads * spec.q_dim() && queries.cols == spec.n_heads * spec.cached());
  CHECK(latents.cols == spec.cached() && cache.dim == spec.cached() && spec.rope.dim == spec.rope_dim);
  CHECK(static_cast<int>(kv_norm.size()) == spec.kv_rank);
  if (q.rows == 0) return;
  latent_rope_kernel<<<dim3(q.rows, spec.n_heads + 1), kThreads, 0, stream_>>>(
      batch_, on_device(q), on_device(latents), spec.n_heads, spec.kv_rank, spec.nope_dim, rope_of(spec.rope),
      kv_norm.data(), spec.norm_eps, cache, spec.kv_group, on_device(queries));
  check(cudaGetLastError(), "latent_rope_and_store");
}

}  // namespace colibri::cuda
