// SPDX-License-Identifier: Apache-2.0
// Purpose: what the gate programs share: error check, median timing, JSON lines, hashed bf16 weights that host and
// device agree on, and the sm_90 primitives (mbarrier, bulk copy, mma, 16-byte packets).
// Invariant: hash_weight(i) is the same value on host and device, so a CPU reference needs no copy of the weights.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "../../src/backend/cuda/sm90-inl.cuh"

#define CUDA_CHECK(expr)                                                                           \
  do {                                                                                             \
    cudaError_t err_ = (expr);                                                                     \
    if (err_ != cudaSuccess) {                                                                     \
      std::fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #expr, cudaGetErrorString(err_)); \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)

namespace gates {

using namespace colibri::cuda;

constexpr double kStreamTBs = 4.65;  // read-only stream of one H200, the denominator of every percentage

// ---- host: timing and output -----------------------------------------------------------------------------------

// Median of n timed launches in ms, after two warm-ups. `launch(i)` gets a running number so that it can rotate inputs.
template <class F>
float median_ms(F launch, int n = 15) {
  cudaEvent_t a, b;
  CUDA_CHECK(cudaEventCreate(&a));
  CUDA_CHECK(cudaEventCreate(&b));
  std::vector<float> times;
  for (int i = -2; i < n; ++i) {
    CUDA_CHECK(cudaEventRecord(a));
    launch(i + 2);
    CUDA_CHECK(cudaEventRecord(b));
    CUDA_CHECK(cudaEventSynchronize(b));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, a, b));
    if (i >= 0) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// One line for people on stdout, one JSON object per line appended to $OUT/<gate>.jsonl when OUT is set.
inline void report(const char* gate, const std::string& name, double value, const char* unit, double error = -1) {
  std::printf("%-12s %-62s %10.3f %s", gate, name.c_str(), value, unit);
  if (error >= 0) std::printf("  (relative error %.1e)", error);
  std::printf("\n");
  std::fflush(stdout);
  const char* out = std::getenv("OUT");
  if (!out) return;
  if (FILE* f = std::fopen((std::string(out) + "/" + gate + ".jsonl").c_str(), "a")) {
    std::fprintf(f, "{\"gate\":\"%s\",\"name\":\"%s\",\"value\":%.4f,\"unit\":\"%s\"", gate, name.c_str(), value, unit);
    if (error >= 0) std::fprintf(f, ",\"relative_error\":%.2e", error);
    std::fprintf(f, "}\n");
    std::fclose(f);
  }
}

inline double relative_error(const std::vector<double>& ref, const std::vector<double>& out) {
  double num = 0, den = 0;
  for (size_t i = 0; i < ref.size(); ++i) num += (out[i] - ref[i]) * (out[i] - ref[i]), den += ref[i] * ref[i];
  return std::sqrt(num / den);  // NaN stays NaN and fails every `<` test
}

// ---- both: weights by hash -------------------------------------------------------------------------------------

__host__ __device__ inline uint32_t mix(uint64_t i) {
  uint32_t h = static_cast<uint32_t>(i) * 0x9E3779B1u ^ static_cast<uint32_t>(i >> 32) * 0x85EBCA77u;
  h ^= h >> 15, h *= 0x2C1B3C6Du, h ^= h >> 12, h *= 0x297A2D39u, h ^= h >> 15;
  return h;
}

// Uniform in (-scale, scale), rounded to bf16.
__host__ __device__ inline __nv_bfloat16 hash_weight(uint64_t i, float scale) {
  return __float2bfloat16((static_cast<float>(mix(i) >> 8) * (2.0f / 16777216.0f) - 1.0f) * scale);
}

inline double hash_double(uint64_t i, float scale) { return __bfloat162float(hash_weight(i, scale)); }

// ---- device: a product --------------------------------------------------------------------------------------------

// Tile order, mma: 16 rows x (kBytes / 32) k in `slot`, activations x (bf16 pairs, k in natural order) in shared
// memory. Result: lanes with lane % 4 == 0 hold row 2g in .x and 2g + 1 in .y, g = lane / 4.
template <int kBytes, int kPad>
__device__ __forceinline__ float2 tile_mma(const char* slot, const uint32_t* x, int lane) {
  constexpr int kHalf = kBytes / 128;  // k pairs per half
  const int g = lane / 4, t = lane % 4;
  const char* a = slot + (t >> 1) * (kBytes / 2 + kPad) + (t & 1) * 64 + g * 8;
  const uint32_t* b = x + (t >> 1) * kHalf + (t & 1);
  float acc[4][4] = {};
#pragma unroll 2
  for (int s = 0; s < kHalf / 4; s += 4) {
    uint2 lo[4], hi[4], x2[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // all loads of four steps first: one latency, not four
      lo[i] = *reinterpret_cast<const uint2*>(a + (s + i) * 256),
      hi[i] = *reinterpret_cast<const uint2*>(a + (s + i) * 256 + 128);
      x2[i] = {b[4 * (s + i)], b[4 * (s + i) + 2]};
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) mma_16816(acc[i], lo[i].x, lo[i].y, hi[i].x, hi[i].y, x2[i].x, x2[i].y);
  }
  return {(acc[0][0] + acc[1][0]) + (acc[2][0] + acc[3][0]), (acc[0][2] + acc[1][2]) + (acc[2][2] + acc[3][2])};
}

}  // namespace gates
