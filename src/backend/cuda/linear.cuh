// SPDX-License-Identifier: Apache-2.0
// The product of some rows with one tile of 16 outputs, for linear and for the experts.
// Invariant: an output is the sum of 8 warps' sums in their order; a warp's is a tree over its 8 quads of lanes; a
// lane's is one fused chain over the pairs of inputs p with p / 8 % 8 = warp and p % 8 = lane / 4. So it depends on
// neither R nor the other rows.
#pragma once

#include "backend/cuda/device.cuh"

namespace colibri::cuda {

inline constexpr int kProductWarps = 8;
inline constexpr int kProductThreads = kProductWarps * kWarp;
inline constexpr int kWarpPairs = 8;  // pairs of inputs that a warp reads at once: 512 bytes

template <int R>
struct ProductShared {
  float parts[kProductWarps][R][kTileRows];
};

/// Weights pass by once: they should not push activations out of the first-level cache.
__device__ inline uint4 load_weights(const uint4* at) {
  uint4 value;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(at));
  return value;
}

/// Inputs 2 p and 2 p + 1 of a row; 0 behind the last. kPaired: there are both, at an address that takes them at once.
template <bool kPaired>
__device__ inline float2 load_pair(const float* x, int p, int cols) {
  if constexpr (kPaired) return *reinterpret_cast<const float2*>(x + 2 * p);
  return {x[2 * p], 2 * p + 1 < cols ? x[2 * p + 1] : 0.0F};
}

/// Adds this thread's part of the products to `sums`. Weights are asked for before the first is used: with one load in
/// flight a product would take as many times the latency of memory as it has steps.
template <int R, bool kPaired>
__device__ void add_products(const uint4* tile, int cols, const float* const (&x)[R], int rows, float (&sums)[R][4]) {
  constexpr int kAhead = 8;
  constexpr int kStep = kProductWarps * kWarpPairs;
  const int lane = threadIdx.x % kWarp;
  const int pairs = (cols + 1) / 2;
  for (int start = static_cast<int>(threadIdx.x) / kWarp * kWarpPairs + lane / 4; start < pairs;
       start += kAhead * kStep) {
    uint4 weights[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int p = start + i * kStep;
      if (p < pairs) weights[i] = load_weights(tile + 4 * static_cast<std::ptrdiff_t>(p) + lane % 4);
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= rows) break;
      float2 inputs[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int p = start + i * kStep;
        if (p < pairs) inputs[i] = load_pair<kPaired>(x[r], p, cols);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (start + i * kStep >= pairs) break;
        const std::uint32_t words[4] = {weights[i].x, weights[i].y, weights[i].z, weights[i].w};
#pragma unroll
        for (int output = 0; output < 4; ++output)
          sums[r][output] =
              fmaf(high_bf16(words[output]), inputs[i].y, fmaf(low_bf16(words[output]), inputs[i].x, sums[r][output]));
      }
    }
  }
}

/// All threads of the block: thread t < 16 R gets output t % 16 of row t / 16 (0 for rows that are not there). x[r] of
/// the first `rows` are read. Begins with a barrier-free part and ends with one barrier, so a second product needs a
/// shared memory of its own.
template <int R>
__device__ float tile_product(const uint4* tile, int cols, const float* const (&x)[R], int rows, bool paired,
                              ProductShared<R>& shared) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  float sums[R][4] = {};
  if (paired) {
    add_products<R, true>(tile, cols, x, rows, sums);
  } else {
    add_products<R, false>(tile, cols, x, rows, sums);
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float sum = sums[r][i];
      for (int offset = 4; offset < kWarp; offset *= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
      if (lane < 4) shared.parts[warp][r][lane * 4 + i] = sum;
    }
  }
  __syncthreads();
  if (threadIdx.x >= R * kTileRows) return 0.0F;
  const int r = threadIdx.x / kTileRows;
  const int i = threadIdx.x % kTileRows;
  float sum = shared.parts[0][r][i];
  for (int w = 1; w < kProductWarps; ++w) sum += shared.parts[w][r][i];
  return sum;
}

/// Tile `index` of a matrix of `cols` inputs.
__device__ inline const uint4* tile_of(const std::byte* matrix, int cols, int index) {
  return reinterpret_cast<const uint4*>(matrix) + static_cast<std::ptrdiff_t>(index) * ((cols + 1) / 2) * 4;
}

/// Whether pairs of inputs may be read at once.
inline bool paired(ConstRows x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 8 == 0 && x.stride % 2 == 0 && x.cols % 2 == 0;
}

}  // namespace colibri::cuda
