// SPDX-License-Identifier: Apache-2.0
// What the phases of decode_step are made of: products of parts, sums over parts, the residual stream.
// Invariant: block b alone holds rows 16 b .. 16 b + 15 of the residual stream; every other vector travels through
// packets, and a packet is written again only after an exchange among all blocks has proved that all have read it.
#pragma once
#include "backend/cuda/decode_exchange-inl.cuh"

namespace colibri::cuda {

template <class S>
struct Consumer {
  static constexpr int kRows = S::kRows;
  using R = Ring<kPartBytes, S::kSlots, kPad>;

  Shared<S>& sh;
  const R ring;
  int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, b = blockIdx.x;
  uint32_t n = 0, epoch = 0;

  // Nothing that was computed from these before is kept: addresses that live across phases would end up in local
  // memory, for which what is left of the L1 is too small.
  __device__ void forget() { asm volatile("" : "+r"(tid), "+r"(warp), "+r"(lane), "+r"(b)); }
  __device__ uint4* packets(size_t buffer) const { return static_cast<uint4*>(sh.step.workspace) + buffer; }
  __device__ void sync() const {
    __syncwarp();
    asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
  }
  __device__ void sync_team(int team) const {
    __syncwarp();
    asm volatile("bar.sync %0, %1;" ::"r"(3 + team), "n"(32 * 8) : "memory");
  }
  __device__ void stamp(int l, int i) const {
    if (sh.step.stamps && tid == 0) {
      uint64_t now;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
      sh.step.stamps[(b * (sh.model.n_layers + 1) + l) * kDecodeStamps + i] = now;
    }
  }
  __device__ const uint4* copy_of(size_t buffer, int r, int count) const {
    return packets(buffer) + (r * kCopies + b % kCopies) * count;
  }

  // One part, see part_sums; x holds its inputs of the token that the lane feeds.
  __device__ float4 consume(uint32_t at, const uint32_t* x) const { return part_sums(ring, at, x, kPartBytes, lane); }
  __device__ int token() const { return kRows == 1 ? 0 : min(lane / 8, kRows - 1); }  // whose inputs this lane feeds
  // Part c of a product of all tokens with the same inputs, which begin at word x.
  __device__ void part(int c, int x) {
    const float4 sums = consume(n + c, sh.act[token()] + padded(x));
    if (lane % 4 < kRows && lane < 16) *reinterpret_cast<float4*>(&sh.red[c][lane % 4][lane / 4 * 4]) = sums;
  }
  // Row lane % 16 of parts first .. first + kCount - 1, in lanes 16..31 of those from `second` on.
  template <int kCount>
  __device__ float rows(int first, int second, int r) const {
    const float* p = &sh.red[lane < 16 ? first : second][r][lane & 15];
    float sum = p[0];
#pragma unroll
    for (int i = 1; i < kCount; ++i) sum += p[i * kRows * 16];
    return sum;
  }
  __device__ float inv_rms(int r) const {
    return rsqrtf(warp_sum(lane < 16 ? sh.sumsq[r][lane] : 0) / S::kD + sh.model.norm_eps);
  }

  // Row `warp` of this block's residual stream += sum, of which half the warp has one part each.
  __device__ void add_and_publish(float sum, size_t buffer, uint32_t as) {
    const float residual = sh.residual[warp][lane % 16] + (sum + __shfl_xor_sync(~0u, sum, 16));
    if (lane < 16) sh.residual[warp][lane] = residual;
    const float4 v = quad(residual, lane);
    if (lane < 4 * kCopies)
      store_floats(packets(buffer) + (warp * kCopies + lane / 4) * S::kRowPackets + b * 4 + lane % 4, v, as);
  }
  // use(index, packet) by whole warps, for kCount packets over all threads.
  template <int kCount, class F>
  __device__ void gather_packets(const uint4* from, unsigned place, F use) const {
    static_assert(kCount % 32 == 0);
    constexpr int kEach = (kCount + kThreads - 1) / kThreads;
    uint4 v[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (i * kThreads + tid < kCount) v[i] = load_packet(from + i * kThreads + tid);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int p = i * kThreads + tid;
      if (p >= kCount) continue;
      Spin spin(place);
      bool missing = v[i].w != epoch;
      while (__any_sync(~0u, missing && !spin.turn()))
        if (missing) v[i] = load_packet(from + p), missing = v[i].w != epoch;
      use(p, v[i]);
    }
  }
  // Value i of a part of floats that lies in a slot.
  template <class T>
  __device__ static const T& value(const char* slot, int i) {
    return *reinterpret_cast<const T*>(slot + i * 4 + (i >= kPartBytes / 8 ? kPad : 0));
  }
  // The residual stream to act, times the norm's weights (part n); sums of squares on the way, and use(r, values).
  template <class F>
  __device__ void gather_rows(size_t buffer, F use) {
    static_assert(S::kRowPackets == kThreads);
    const float4 w = value<float4>(ring.wait(n), 4 * tid);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 v = poll_floats(copy_of(buffer, r, S::kRowPackets) + tid, epoch, 3);
      uint32_t* to = sh.act[r] + padded(2 * tid);
      to[0] = pack_bf16(v.x * w.x, v.y * w.y), to[1] = pack_bf16(v.z * w.z, v.w * w.w);
      const float squares = warp_sum((v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w));
      if (lane == 0) sh.sumsq[r][warp] = squares;
      use(r, v);
    }
  }
  __device__ void release(int parts) {  // that all warps have read, after a sync
    if (warp == 0)
      for (int i = 0; i < parts; ++i) ring.release(n + i, lane);
    n += parts;
  }

  __device__ void attention(int l);
  __device__ float4 normed(float4 v, const float* weights, bool norm, int r) const;
  __device__ void attend(int l, int r, int split, const DecodeLayer& layer);
  __device__ void combine(int l, int r);
  __device__ void route(int l, const std::byte* record);
  __device__ void layer(int l);
  __device__ void head();
};

}  // namespace colibri::cuda
