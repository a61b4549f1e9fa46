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

/// Inputs 2 p and 2 p + 1 of a row; 0 behind the last.
__device__ inline float2 load_pair(const float* x, int p, int cols, bool aligned) {
  if (2 * p + 1 >= cols) return {x[2 * p], 0.0F};
  if (aligned) return *reinterpret_cast<const float2*>(x + 2 * p);
  return {x[2 * p], x[2 * p + 1]};
}

/// All threads of the block: thread t < 16 R gets output t % 16 of row t / 16 (0 for rows that are not there). x[r] of
/// the first `rows` are read. Begins with a barrier-free part and ends with one barrier, so a second product needs a
/// shared memory of its own.
template <int R>
__device__ float tile_product(const uint4* tile, int cols, const float* const (&x)[R], int rows, bool aligned,
                              ProductShared<R>& shared) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int pairs = (cols + 1) / 2;
  float sums[R][4] = {};
#pragma unroll 4
  for (int p = warp * kWarpPairs + lane / 4; p < pairs; p += kProductWarps * kWarpPairs) {
    const uint4 w = load_weights(tile + 4 * static_cast<std::ptrdiff_t>(p) + lane % 4);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= rows) break;
      const float2 in = load_pair(x[r], p, cols, aligned);
      const std::uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        sums[r][i] = fmaf(high_bf16(words[i]), in.y, fmaf(low_bf16(words[i]), in.x, sums[r][i]));
    }
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
inline bool pairs_aligned(ConstRows x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 8 == 0 && x.stride % 2 == 0;
}

}  // namespace colibri::cuda
