// SPDX-License-Identifier: Apache-2.0
// Purpose: the kernel of the decode skeleton: the consumer warps, phase by phase.
// Invariant: a phase is gather (every block polls the packets of all), consume (one warp per part, partial sums to
// red[]), block_sync, publish (a few warps); block_sync reconverges each warp first, since a poll leaves its lanes
// apart.
#pragma once
#include "decode_skeleton.cuh"

namespace gates {

template <int kDiv, Sync kSync, Route kRoute, int kCopies>
__global__ void __launch_bounds__(kThreads + 32 * Shape<kDiv>::kProducers, 1)
    decode_skeleton(const __grid_constant__ Args args) {
  using S = Shape<kDiv>;
  extern __shared__ __align__(128) char buffer[];
  __shared__ Shared<kDiv> sh;
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, b = blockIdx.x, copy = b % kCopies;
  Ring<S::kSlot, S::kSlots, kPad> ring{buffer, sh.full, sh.empty};
  const Args& a = sh.args;
  if (tid == 0) {
    sh.args = args;
    mbar_init(&sh.routed, kTop);
    ring.init();
  }
  __syncthreads();
  if (warp >= kWarps) {
    if (lane == 0) produce<kDiv>(warp - kWarps, ring, sh);
    return;
  }

  uint32_t n = 0, arrivals = 0;
  auto block_sync = [] {
    __syncwarp();
    asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
  };
  auto meet = [&] {  // the grid barrier between publish and gather, when that is the sync
    if constexpr (kSync == Sync::kCounter) {
      block_sync();
      if (tid == 0) {
        add_release(a.counter, 1);
        const uint32_t target = a.counter_base + ++arrivals * kBlocks;
        while (static_cast<int>(load_acquire(a.counter) - target) < 0) {
        }
      }
      block_sync();
    }
  };
  auto consume = [&](uint32_t at, const uint32_t* x, int bytes, float* red) {  // one part: sums of 16 rows to red
    const float4 sums = part_sums(ring, at, x, bytes, lane);
    if (lane % 4 == 0 && lane < 16) *reinterpret_cast<float4*>(red + lane) = sums;
  };
  auto inv_rms = [&] {
    const float4 s = reinterpret_cast<const float4*>(sh.sumsq)[lane];
    return rsqrtf(warp_sum((s.x + s.y) + (s.z + s.w)) / kD + 1e-6f);
  };
  auto stamp = [&](int l, int i) {
    if (a.stamps && b == 0 && tid == 0) {
      uint64_t now;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
      a.stamps[l * 16 + i] = now;
    }
  };
  auto router_sum = [&](float sum, uint32_t epoch) {  // the block's sum of one logit, published
    sum = warp_sum(sum);
    if (lane == 0) sh.part[warp] = sum;
    block_sync();
    if (warp == kWarps - 1) {
      const float all = warp_sum(lane < kWarps ? sh.part[lane] : 0);
      if (lane < kCopies) store_packet(a.logit + lane * kBlocks + b, __float_as_uint(all), epoch);
    }
  };

  // Residual rows live in lanes 0..15 of warp 0.
  float residual = a.x0[b * 16 + lane % 16], scale = 0, share = 0, logit_x = 0;
  auto publish_residual = [&](uint4* to, uint32_t epoch) {
    const float sum = warp_sum(lane < 16 ? residual * residual : 0);
    const uint32_t pairs = pack_pairs(residual, lane);
    publish<3, kCopies>(to, b, kBlocks, lane < 8 ? pairs : __float_as_uint(sum), epoch, lane);
  };
  if (warp == 0) publish_residual(a.x, a.epoch + 1);

#pragma unroll 1
  for (int l = 0; l <= a.layers; ++l) {
    const uint32_t epoch = a.epoch + 1 + l;
    uint2 wr = {};  // the router's weights of row b, on their way to registers before they are needed
    float4 wo[2] = {};
    if (l < a.layers) {
      wr = __ldcs(reinterpret_cast<const uint2*>(a.router + (l * kExperts + b) * (kD / 2)) + tid);
      if (kRoute == Route::kEarly)
        for (int i = 0; i < 2; ++i)
          wo[i] = __ldcs(reinterpret_cast<const float4*>(a.router_o + (l * kExperts + b) * size_t{kQ}) + tid * 2 + i);
    }
#pragma unroll 1
    for (int phase = 0; phase < 4; ++phase) {
      stamp(l, phase * 4);
      meet();
#include "decode_gather.inl"
      block_sync();
      stamp(l, phase * 4 + 1);
      if (l == a.layers) break;
      if (phase % 2 == 0) {
        scale = inv_rms();
        const uint2 x = *reinterpret_cast<const uint2*>(&sh.act[padded(tid * 2)]);
        const float dot = (bf16_lo(wr.x) * bf16_lo(x.x) + bf16_hi(wr.x) * bf16_hi(x.x)) +
                          (bf16_lo(wr.y) * bf16_lo(x.y) + bf16_hi(wr.y) * bf16_hi(x.y));
        if (kRoute == Route::kEarly) {
          logit_x = dot;
        } else if (phase == 2) {
          router_sum(dot, epoch);
          meet();
          route(epoch);
        }
      }
      const int count = S::parts(phase);
#pragma unroll 1
      for (int c = warp; c < count; c += kWarps) {
        int at = c;  // first k of the part, in parts
        if (phase == 0 && c >= 2 * S::kXParts)
          at = b % 2 * (S::kXParts / 2) + c - 2 * S::kXParts;
        else if (phase != 1)
          at = c % S::kXParts;
        const uint32_t* x = phase == 3 ? sh.act + padded(c / S::kDParts * (kF / 2) + c % S::kDParts * (S::kDPart / 64))
                                       : sh.act + padded(at * (S::kSlot / 64));
        consume(n + c, x, phase == 3 ? S::kDPart : S::kSlot, sh.red[c]);
      }
      n += count;
      block_sync();
      stamp(l, phase * 4 + 2);
#include "decode_publish.inl"
      stamp(l, phase * 4 + 3);
    }
  }

  // LM head: tiles b, b + 128, ..; a round is one part per warp.
  scale = inv_rms();
  constexpr int kPerRound = kWarps / S::kXParts;
#pragma unroll 1
  for (int t = b, round = 0; t < kHeadTiles; t += kPerRound * kBlocks, ++round) {
    const int bank = round % 2 * kWarps;
    if (t + warp / S::kXParts * kBlocks < kHeadTiles)
      consume(n + warp, sh.act + padded(warp % S::kXParts * (S::kSlot / 64)), S::kSlot, sh.red[bank + warp]);
    n += kWarps;
    block_sync();
    const int tile = t + warp * 2 * kBlocks + lane / 16 * kBlocks;
    if (warp * 2 < kPerRound && tile < kHeadTiles)
      a.logits[tile * 16 + lane % 16] =
          rows<S::kXParts>(sh.red, bank + warp * 2 * S::kXParts, bank + (warp * 2 + 1) * S::kXParts, lane) * scale;
  }
  stamp(a.layers, 2);
}

}  // namespace gates
