// SPDX-License-Identifier: Apache-2.0
// Purpose: random weights of Qwen3-30B-A3B's shape and the same decode step in double, by kernels as simple as can be.
// Invariant: the reference rounds where decode_step does (the inputs of products but the router's) and nowhere else,
// and computes router logits from the residual stream; it shares no code with decode_step.
#pragma once
#include "../gates/common.cuh"
#include "backend/cuda/decode_step.h"
#include "core/expert_table.h"

namespace bench {

using namespace gates;
using colibri::ExpertShape, colibri::matrix_bytes, colibri::cuda::DecodeLayer, colibri::cuda::DecodeModel;

constexpr int kD = 2048, kHeads = 32, kKvHeads = 4, kDim = 128, kExperts = 128, kTop = 8, kF = 768, kVocab = 151936;
constexpr int kQ = kHeads * kDim, kKv = kKvHeads * kDim, kQkv = kQ + 2 * kKv, kBlockFloats = 2 * kKv * 16;

template <class T>
T* device_array(size_t n) {
  T* p;
  CUDA_CHECK(cudaMalloc(&p, n * sizeof(T)));
  return p;
}

__global__ void fill_bf16(uint32_t* to, size_t n, uint64_t seed, float scale) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    to[i] = pack_bf16(__bfloat162float(hash_weight(seed + 2 * i, scale)),
                      __bfloat162float(hash_weight(seed + 2 * i + 1, scale)));
}
__global__ void fill_floats(float* to, size_t n, uint64_t seed, float middle, float scale) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    to[i] = middle + ((mix(seed + i) >> 8) * (2.0f / 16777216.0f) - 1.0f) * scale;
}

struct Model {
  int n_layers;
  uint64_t seed;
  std::vector<DecodeLayer> layers;
  std::vector<const std::byte*> slabs, routers;
  DecodeModel device;
  std::vector<float> inv_freq;
  static constexpr ExpertShape kRecord = {kD, kF, false};

  const std::byte* matrix(size_t bytes, int cols) {
    auto* p = device_array<std::byte>(bytes);
    fill_bf16<<<4096, 256>>>(reinterpret_cast<uint32_t*>(p), bytes / 4, seed += uint64_t{1} << 40,
                             std::sqrt(3.0f / cols));
    return p;
  }
  const float* norm(int n) {
    float* p = device_array<float>(n);
    fill_floats<<<8, 256>>>(p, n, seed += uint64_t{1} << 40, 1.0f, 0.5f);
    return p;
  }
  Model(int layer_count, int kv_blocks, uint64_t random) : n_layers(layer_count), seed(random) {
    float* kv = device_array<float>(size_t{kBlockFloats} * kv_blocks * n_layers);
    for (int l = 0; l < n_layers; ++l) {
      DecodeLayer w{norm(kD), norm(kD), norm(kDim), norm(kDim)};
      w.qkv = matrix(matrix_bytes(kQkv, kD), kD), w.o = matrix(matrix_bytes(kD, kQ), kQ);
      routers.push_back(matrix(matrix_bytes(kExperts, kD), kD));
      float* rows = device_array<float>(size_t{kExperts} * (kD + kQ));
      CUDA_CHECK(
          static_cast<cudaError_t>(colibri::cuda::derive_router_rows(routers[l], w.ffn_norm, w.o, rows, nullptr)));
      w.router_rows = rows;
      const std::byte* slab = matrix(kExperts * kRecord.record_bytes(), kD);
      std::vector<const std::byte*> records;
      for (int e = 0; e < kExperts; ++e) records.push_back(slab + e * kRecord.record_bytes());
      auto* table = device_array<const std::byte*>(kExperts);
      CUDA_CHECK(cudaMemcpy(table, records.data(), kExperts * sizeof(void*), cudaMemcpyHostToDevice));
      w.records = table, slabs.push_back(slab);
      w.kv = kv + size_t{kBlockFloats} * kv_blocks * l;
      layers.push_back(w);
    }
    layers.push_back({norm(kD)});
    auto* table = device_array<DecodeLayer>(layers.size());
    CUDA_CHECK(cudaMemcpy(table, layers.data(), layers.size() * sizeof(DecodeLayer), cudaMemcpyHostToDevice));
    for (int i = 0; i < kDim / 2; ++i) inv_freq.push_back(static_cast<float>(std::pow(1e6, -2.0 * i / kDim)));
    float* frequencies = device_array<float>(kDim / 2);
    CUDA_CHECK(cudaMemcpy(frequencies, inv_freq.data(), kDim / 2 * 4, cudaMemcpyHostToDevice));
    device = {table, matrix(matrix_bytes(kVocab, kD), 3), matrix(matrix_bytes(kVocab, kD), kD), frequencies};
    device.kv_block_stride = kBlockFloats, device.n_layers = n_layers, device.vocab = kVocab;
    device.norm_eps = 1e-6f, device.attn_scale = 1 / std::sqrt(128.0f), device.norm_topk = true;
    CUDA_CHECK(cudaDeviceSynchronize());
  }
};

// ---- the reference -------------------------------------------------------------------------------------------------

__device__ inline double tile_at(const std::byte* m, int cols, int row, int col) {
  const auto* tile = reinterpret_cast<const uint32_t*>(m) + static_cast<size_t>(row / 16) * cols * 8;
  const uint32_t word = tile[col / 2 * 16 + row % 16];
  return col % 2 ? bf16_hi(word) : bf16_lo(word);
}
__device__ inline double rounded(double v) { return __bfloat162float(__float2bfloat16(static_cast<float>(v))); }

// out[row] (+)= factor * sum of m[row, :] in[:]; a block is a tile, its 16 threads with one row take every 16th column.
__global__ void ref_product(const std::byte* m, int cols, const double* in, const double* factor, bool add,
                            double* out) {
  __shared__ double sums[16][16];
  const int row = threadIdx.x % 16, slice = threadIdx.x / 16, at = blockIdx.x * 16 + row;
  double sum = 0;
  for (int k = slice; k < cols; k += 16) sum += tile_at(m, cols, at, k) * in[k];
  sums[slice][row] = sum;
  __syncthreads();
  if (slice > 0) return;
  for (int i = 1; i < 16; ++i) sum += sums[i][row];
  if (factor) sum *= *factor;
  out[at] = add ? out[at] + sum : sum;
}
__global__ void ref_embed(const std::byte* m, int token, double* x) {
  for (int i = threadIdx.x; i < kD; i += blockDim.x) x[i] = tile_at(m, kD, token, i);
}
// exact = x w, in = exact rounded, factor = 1 / rms.
__global__ void ref_norm(const double* x, const float* w, float eps, double* exact, double* in, double* factor) {
  __shared__ double part[256];
  double sum = 0;
  for (int i = threadIdx.x; i < kD; i += 256) sum += x[i] * x[i], exact[i] = x[i] * w[i], in[i] = rounded(x[i] * w[i]);
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < 256; ++i) sum += part[i];
  *factor = 1 / sqrt(sum / kD + eps);
}
// Heads of q and k: norm, rope; k and v to the cache. Block: one head of q | k | v.
__global__ void ref_rope(double* qkv, const float* q_norm, const float* k_norm, float eps, const float* inv_freq,
                         int position, float* block) {
  const int head = blockIdx.x, d = threadIdx.x;
  double* v = qkv + head * kDim;
  __shared__ double s[kDim];
  s[d] = v[d];
  if (head < kHeads + kKvHeads) {
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < kDim; ++i) sum += s[i] * s[i];
    const double mine = s[d] / sqrt(sum / kDim + eps) * (head < kHeads ? q_norm : k_norm)[d];
    __syncthreads();
    s[d] = mine;
    __syncthreads();
    const double angle = static_cast<float>(position) * inv_freq[d % 64];
    v[d] = d < 64 ? s[d] * cos(angle) - s[d + 64] * sin(angle) : s[d] * cos(angle) + s[d - 64] * sin(angle);
  }
  const int slot = position % 16;
  if (head >= kHeads + kKvHeads)
    block[((head - kHeads) * 16 + slot) * kDim + d] = v[d];
  else if (head >= kHeads)
    block[((head - kHeads) * kDim + d) * 16 + slot] = v[d];
}
// Block: a head of q. scores [kHeads][position + 1] is room for the softmax.
__global__ void ref_attention(const double* q, const float* kv, const int* table, int position, float scale,
                              double* scores, double* out) {
  const int head = blockIdx.x, group = head / (kHeads / kKvHeads);
  double* mine = scores + static_cast<size_t>(head) * (position + 1);
  for (int p = threadIdx.x; p <= position; p += blockDim.x) {
    const float* k = kv + static_cast<size_t>(table[p / 16]) * kBlockFloats + group * kDim * 16 + p % 16;
    double s = 0;
    for (int d = 0; d < kDim; ++d) s += q[head * kDim + d] * k[d * 16];
    mine[p] = s * scale;
  }
  __syncthreads();
  double most = -INFINITY, total = 0, sum = 0;
  for (int p = 0; p <= position; ++p) most = fmax(most, mine[p]);
  for (int p = 0; p <= position; ++p) {
    const double w = exp(mine[p] - most);
    total += w;
    sum +=
        w *
        kv[static_cast<size_t>(table[p / 16]) * kBlockFloats + ((kKvHeads + group) * 16 + p % 16) * kDim + threadIdx.x];
  }
  out[head * kDim + threadIdx.x] = rounded(sum / total);
}
__global__ void ref_silu(const double* gate, const double* up, double* h) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  h[i] = rounded(gate[i] / (1 + exp(-gate[i])) * up[i]);
}

struct Reference {
  const Model& model;
  double *x = device_array<double>(kD), *exact = device_array<double>(kD), *in = device_array<double>(kD);
  double *factor = device_array<double>(1), *share = device_array<double>(kTop), *qkv = device_array<double>(kQkv);
  double *a = device_array<double>(kQ), *gate = device_array<double>(kF), *up = device_array<double>(kF);
  double *h = device_array<double>(kF), *router = device_array<double>(kExperts), *out = device_array<double>(kVocab);
  double* scores = device_array<double>(size_t{kHeads} * 65536);
  double worst_choice = 0;  // most that a chosen expert's logit lies below that of its rank

  // Follows `experts` ([layers][stride], the first kTop of each), whose distance from the best choice it keeps.
  std::vector<double> step(int token, int position, const int* table_device, int block, const int* experts, int stride,
                           float* const* kv) {
    const DecodeModel& m = model.device;
    ref_embed<<<1, 256>>>(m.embedding, token, x);
    for (int l = 0; l < model.n_layers; ++l) {
      const DecodeLayer& w = model.layers[l];
      ref_norm<<<1, 256>>>(x, w.attn_norm, m.norm_eps, exact, in, factor);
      ref_product<<<kQkv / 16, 256>>>(w.qkv, kD, in, factor, false, qkv);
      ref_rope<<<kHeads + 2 * kKvHeads, kDim>>>(qkv, w.q_norm, w.k_norm, m.norm_eps, m.inv_freq, position,
                                                kv[l] + size_t{kBlockFloats} * block);
      ref_attention<<<kHeads, kDim>>>(qkv, kv[l], table_device, position, m.attn_scale, scores, a);
      ref_product<<<kD / 16, 256>>>(w.o, kQ, a, nullptr, true, x);
      ref_norm<<<1, 256>>>(x, w.ffn_norm, m.norm_eps, exact, in, factor);
      ref_product<<<kExperts / 16, 256>>>(model.routers[l], kD, exact, factor, false, router);
      std::vector<double> logits(kExperts), shares(kTop);
      CUDA_CHECK(cudaMemcpy(logits.data(), router, kExperts * 8, cudaMemcpyDeviceToHost));
      auto sorted = logits;
      std::sort(sorted.rbegin(), sorted.rend());
      double total = 0;
      for (int e = 0; e < kTop; ++e) {
        const int id = experts[l * stride + e];
        if (id < 0 || id >= kExperts) return std::vector<double>(kVocab, NAN);
        worst_choice = std::max(worst_choice, std::fabs(sorted[e] - logits[id]));
        total += shares[e] = std::exp(logits[id] - sorted[0]);
      }
      for (double& s : shares) s /= total;
      CUDA_CHECK(cudaMemcpy(share, shares.data(), kTop * 8, cudaMemcpyHostToDevice));
      for (int e = 0; e < kTop; ++e) {
        const std::byte* record = model.slabs[l] + experts[l * stride + e] * Model::kRecord.record_bytes();
        ref_product<<<kF / 16, 256>>>(record, kD, in, factor, false, gate);
        ref_product<<<kF / 16, 256>>>(record + Model::kRecord.up_offset(), kD, in, factor, false, up);
        ref_silu<<<kF / 256, 256>>>(gate, up, h);
        ref_product<<<kD / 16, 256>>>(record + Model::kRecord.down_offset(), kF, h, share + e, true, x);
      }
    }
    ref_norm<<<1, 256>>>(x, model.layers.back().attn_norm, m.norm_eps, exact, in, factor);
    ref_product<<<kVocab / 16, 256>>>(m.head, kD, in, factor, false, out);
    std::vector<double> logits(kVocab);
    CUDA_CHECK(cudaMemcpy(logits.data(), out, kVocab * 8, cudaMemcpyDeviceToHost));
    return logits;
  }
};

}  // namespace bench
