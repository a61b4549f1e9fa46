// SPDX-License-Identifier: Apache-2.0
// How decode_step's blocks hand data to each other: packets that carry their epoch, written once, polled by all.
// Invariant: a poll is made by whole warps, and the warp leaves it as one.
#pragma once
#include "backend/cuda/decode_shape-inl.cuh"

namespace colibri::cuda {

// Four floats as one packet whose lowest bits are the epoch's: 23 significant bits arrive, the same for every reader.
__device__ __forceinline__ float untagged(float f) { return __uint_as_float(__float_as_uint(f) & ~1u); }
__device__ __forceinline__ void store_floats(uint4* p, float4 v, uint32_t epoch) {
  auto word = [&](float f, int i) { return (__float_as_uint(f) & ~1u) | (epoch >> i & 1); };
  const uint32_t w = word(v.w, 3);
  store_packet(p, word(v.x, 0), word(v.y, 1), word(v.z, 2), w);
}
__device__ __forceinline__ bool has_floats(uint4 v, uint32_t epoch) {
  return (((v.x ^ epoch) | (v.y ^ epoch >> 1) | (v.z ^ epoch >> 2) | (v.w ^ epoch >> 3)) & 1) == 0;
}
__device__ __forceinline__ float4 floats(uint4 v) {
  auto value = [](uint32_t w) { return __uint_as_float(w & ~1u); };
  return make_float4(value(v.x), value(v.y), value(v.z), value(v.w));
}
// By whole warps, of which some lanes may want nothing. All loads are on their way before the first is waited for. The
// warp leaves each loop as one: lanes that leave on their own stay apart, and every shuffle after that takes 100
// clocks.
template <class P, int kCount, class F>
__device__ __forceinline__ void poll(const P* const (&from)[kCount], P (&v)[kCount], F there, unsigned place,
                                     bool wanted = true) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if (wanted) v[i] = load_packet(from[i]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    Spin spin(place);
    bool missing = wanted && !there(v[i]);
    while (__any_sync(~0u, missing && !spin.turn()))
      if (missing) v[i] = load_packet(from[i]), missing = !there(v[i]);
  }
}
template <int kCount>
__device__ __forceinline__ void poll_floats(const uint4* const (&from)[kCount], float4 (&to)[kCount], uint32_t epoch,
                                            unsigned place, bool wanted = true) {
  uint4 v[kCount];
  poll(
      from, v, [&](uint4 x) { return has_floats(x, epoch); }, place, wanted);
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = floats(v[i]);
}
__device__ __forceinline__ float4 poll_floats(const uint4* from, uint32_t epoch, unsigned place) {
  float4 to[1];
  poll_floats<1>({from}, to, epoch, place);
  return to[0];
}

// Word `lane` of a warp becomes kPackets packets of three words at place `at` of every copy.
template <int kPackets>
__device__ __forceinline__ void publish(uint4* base, int at, int places, uint32_t word, uint32_t epoch, int lane) {
  const int p = lane % kPackets, copy = lane / kPackets;
  const uint32_t x = __shfl_sync(~0u, word, (3 * p) & 31), y = __shfl_sync(~0u, word, (3 * p + 1) & 31),
                 z = __shfl_sync(~0u, word, (3 * p + 2) & 31);
  if (copy < kCopies) store_packet(base + (copy * places + at) * kPackets + p, x, y, z, epoch);
}

// Lane w gets the values of lanes 4 w .. 4 w + 3, or as a bf16 pair those of lanes 2 w and 2 w + 1.
__device__ __forceinline__ float4 quad(float f, int lane) {
  const int from = lane * 4 & 31;
  return make_float4(__shfl_sync(~0u, f, from), __shfl_sync(~0u, f, from + 1), __shfl_sync(~0u, f, from + 2),
                     __shfl_sync(~0u, f, from + 3));
}
__device__ __forceinline__ uint32_t pair(float f, int lane) {
  return pack_bf16(__shfl_sync(~0u, f, lane * 2 & 31), __shfl_sync(~0u, f, (lane * 2 + 1) & 31));
}

}  // namespace colibri::cuda
