// SPDX-License-Identifier: Apache-2.0
// What kernels share: sums over a warp or a block in a fixed order, the weights' tiles, the way through block tables.
// Invariant: nothing here is contracted by the compiler (--fmad=false): a fused multiply-add is written as fmaf.
#pragma once

#include <cstdint>

#include "backend/cuda/cuda.h"
#include "core/kv_view.h"
#include "core/matrix.h"

namespace colibri::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffU;
inline constexpr int kWarp = 32;

/// RowsOf as kernels take it.
struct Place {
  float* data;
  std::ptrdiff_t stride;
  __device__ float* row(int r) const { return data + r * stride; }
};
struct ConstPlace {
  const float* data;
  std::ptrdiff_t stride;
  __device__ const float* row(int r) const { return data + r * stride; }
};
inline Place on_device(Rows rows) { return {rows.data, rows.stride}; }
inline ConstPlace on_device(ConstRows rows) { return {rows.data, rows.stride}; }

__device__ inline float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
}

/// The sum over all threads of a block of whole warps, at most 32 of them; every thread gets it.
__device__ inline float block_sum(float value) {
  __shared__ float parts[kWarp];
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_sum(value);
  __syncthreads();  // the sum before has been read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  float sum = parts[0];
  for (int w = 1; w < warps; ++w) sum += parts[w];
  return sum;
}

__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0F + expf(-x)); }

__device__ inline float low_bf16(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_bf16(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000U); }

__device__ inline std::uint64_t now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

/// Entry `index` of a sequence's table.
__device__ inline std::int32_t table_entry(const DeviceBatch& batch, int group, int sequence, int index) {
  const std::int32_t entries = batch.tables[0];
  const std::int32_t sequences = batch.tables[1];
  return batch.tables[2 + (static_cast<std::ptrdiff_t>(group) * sequences + sequence) * entries + index];
}

}  // namespace colibri::cuda
