// SPDX-License-Identifier: Apache-2.0
// Purpose: the weights of the decode skeleton, filled on the device by hash, and the same token in double on the host.
// Invariant: the reference rounds where the kernel rounds (the bf16 inputs of products) and nowhere else.
#pragma once
#include <thread>

#include "decode_skeleton.cuh"

namespace gates {

enum Kind : uint64_t { kIdQkv, kIdO, kIdRouter, kIdRouterO, kIdExpert, kIdHead };
__host__ __device__ inline uint64_t weight_id(uint64_t seed, Kind kind, uint64_t row, uint64_t k) {
  return seed + (static_cast<uint64_t>(kind) << 44) + (row << 12) + k;  // k < 4096
}
__host__ __device__ inline float weight_scale(Kind kind, int k) {
  return sqrtf(3.0f / k) * (kind == kIdRouterO ? 0.5f : 1.0f);
}

// rows x k in tile order; blockIdx.x is the tile.
__global__ void fill_tiles(uint32_t* w, int k, uint64_t seed, Kind kind) {
  const size_t tile = blockIdx.x, words = static_cast<size_t>(k) * 8;
  uint32_t* to = w + tile * words;
  for (int i = threadIdx.x; i < static_cast<int>(words); i += blockDim.x) {
    const uint64_t id = weight_id(seed, kind, tile * 16 + i % 16, i / 16 * 2);
    const float s = weight_scale(kind, k);
    to[i] = pack_bf16(__bfloat162float(hash_weight(id, s)), __bfloat162float(hash_weight(id + 1, s)));
  }
}
__global__ void fill_rows(uint32_t* router, float* router_o, uint64_t seed) {
  const uint64_t row = blockIdx.x;
  const float s = weight_scale(kIdRouter, kD), so = weight_scale(kIdRouterO, kQ);
  for (int i = threadIdx.x; i < kD / 2; i += blockDim.x)
    router[row * (kD / 2) + i] =
        pack_bf16(__bfloat162float(hash_weight(weight_id(seed, kIdRouter, row, 2 * i), s)),
                  __bfloat162float(hash_weight(weight_id(seed, kIdRouter, row, 2 * i + 1), s)));
  for (int i = threadIdx.x; i < kQ; i += blockDim.x)
    router_o[row * kQ + i] = __bfloat162float(hash_weight(weight_id(seed, kIdRouterO, row, i), so));
}

// Rows of gate, up and down share one row number space: row = ((record * 3 + matrix) << 11) + r.
__global__ void fill_experts(char* w, int kx, int kf, uint64_t seed) {
  const size_t record = blockIdx.x / 3, bytes = static_cast<size_t>(kF) * kx * 2;
  const int m = blockIdx.x % 3, k = m == 2 ? kf : kx;
  uint32_t* to = reinterpret_cast<uint32_t*>(w + (record * 3 + m) * bytes);
  const float s = weight_scale(kIdExpert, k);
  for (int i = threadIdx.x; i < static_cast<int>(bytes / 4); i += blockDim.x) {
    const int tile = i / (k * 8), in = i % (k * 8);
    const uint64_t id = weight_id(seed, kIdExpert, ((record * 3 + m) << 11) + tile * 16 + in % 16, in / 16 * 2);
    to[i] = pack_bf16(__bfloat162float(hash_weight(id, s)), __bfloat162float(hash_weight(id + 1, s)));
  }
}

template <class F>
void parallel(int n, F f) {
  const int threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([=] {
      for (int i = t; i < n; i += threads) f(i);
    });
  for (auto& t : pool) t.join();
}

double bf16_round(double v) { return __bfloat162float(__float2bfloat16(static_cast<float>(v))); }

// Follows the device's choice of experts, after checking that it is a top 8 up to the rounding of bf16 activations.
// Gives 4096 logits.
template <int kDiv>
std::vector<double> reference(const std::vector<float>& x0, const std::vector<int>& picked, int layers, bool early,
                              uint64_t seed) {
  using S = Shape<kDiv>;
  std::vector<double> x(x0.begin(), x0.end());
  auto product = [&](Kind kind, uint64_t row0, int rows, int k, const std::vector<double>& v, size_t at = 0) {
    std::vector<double> out(rows);
    const float s = weight_scale(kind, k);
    parallel(rows, [&](int r) {
      double sum = 0;
      for (int i = 0; i < k; ++i) sum += hash_double(weight_id(seed, kind, row0 + r, i), s) * v[at + i];
      out[r] = sum;
    });
    return out;
  };
  auto rounded = [](std::vector<double> v) {
    for (double& d : v) d = bf16_round(d);
    return v;
  };
  auto inv_rms = [](const std::vector<double>& v) {
    double s = 0;
    for (double d : v) s += d * d;
    return 1 / std::sqrt(s / kD + 1e-6);
  };
  for (int l = 0; l < layers; ++l) {
    auto qkv = product(kIdQkv, uint64_t(l) * kQkv, kQkv, S::kKx, rounded(x));
    for (double& d : qkv) d *= inv_rms(x);
    std::vector<double> a(kQ);
    for (int i = 0; i < kQ; ++i) {
      const int h = i / 128, g = h / 8;
      double s = 0;
      for (int d = 0; d < 128; ++d) s += qkv[h * 128 + d] * qkv[kQ + g * 128 + d];
      a[i] = bf16_round(qkv[kQ + 512 + g * 128 + i % 128] / (1 + std::exp(-s / std::sqrt(128.0))));
    }
    auto logits = product(kIdRouter, uint64_t(l) * kExperts, kExperts, kD, rounded(x));
    const auto from_a = product(kIdRouterO, uint64_t(l) * kExperts, kExperts, kQ, a);
    const auto o = product(kIdO, uint64_t(l) * kD, kD, S::kKo, a);
    for (int i = 0; i < kD; ++i) x[i] += o[i];
    if (early)
      for (int i = 0; i < kExperts; ++i) logits[i] += from_a[i];
    if (!early) logits = product(kIdRouter, uint64_t(l) * kExperts, kExperts, kD, rounded(x));
    auto sorted = logits;
    std::sort(sorted.rbegin(), sorted.rend());
    std::vector<double> y(kD), w(kTop);
    double total = 0;
    for (int e = 0; e < kTop; ++e) {
      const int id = picked[l * kTop + e];
      if (!(id >= 0 && id < kExperts && std::fabs(logits[id] - sorted[e]) < 2e-2))
        std::printf("WRONG expert, layer %d: ", l);
      total += w[e] = std::exp((logits[id] - sorted[0]) * inv_rms(x));
    }
    for (int e = 0; e < kTop; ++e) {
      const uint64_t rec = (uint64_t(l) * kExperts + picked[l * kTop + e]) * 3;
      const auto gate = product(kIdExpert, rec << 11, kF, S::kKx, rounded(x));
      const auto up = product(kIdExpert, (rec + 1) << 11, kF, S::kKx, rounded(x));
      std::vector<double> h(kF);
      for (int i = 0; i < kF; ++i) {
        const double g = gate[i] * inv_rms(x), u = up[i] * inv_rms(x);
        h[i] = bf16_round(g / (1 + std::exp(-g)) * u);
      }
      const auto down = product(kIdExpert, (rec + 2) << 11, kD, S::kKf, h);
      for (int i = 0; i < kD; ++i) y[i] += w[e] / total * down[i];
    }
    for (int i = 0; i < kD; ++i) x[i] += y[i];
  }
  auto out = product(kIdHead, 0, 4096, S::kKx, rounded(x));
  for (double& d : out) d *= inv_rms(x);
  return out;
}

}  // namespace gates
