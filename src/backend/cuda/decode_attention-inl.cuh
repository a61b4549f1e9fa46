// SPDX-License-Identifier: Apache-2.0
// Attention of decode_step: every block has a slice of one key head's cache, and the slices meet in the block whose 32
// values of a they are.
// Invariant: how a row's positions are cut into slices, and the order in which parts are summed, depend on its position
// alone.
#pragma once
#include "backend/cuda/decode_consumer-inl.cuh"

namespace colibri::cuda {

// A head, of which a lane has dimensions 4 lane .. 4 lane + 3: norm and rotation.
template <class S>
__device__ float4 Consumer<S>::normed(float4 v, const float* weights, bool norm, int r) const {
  if (norm) {
    const float4 w = reinterpret_cast<const float4*>(weights)[lane];
    const float squares = warp_sum((v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w));
    const float scale = rsqrtf(squares / S::kHeadDim + sh.model.norm_eps);
    v.x *= scale * w.x, v.y *= scale * w.y, v.z *= scale * w.z, v.w *= scale * w.w;
  }
  const float4 c = *reinterpret_cast<const float4*>(&sh.cosine[r][lane % 16 * 4]);
  const float4 s = *reinterpret_cast<const float4*>(&sh.sine[r][lane % 16 * 4]);
  auto turned = [&](float mine, float cosine, float sine) {
    const float other = __shfl_xor_sync(~0u, mine, 16);
    return mine * cosine + (lane < 16 ? -other : other) * sine;
  };
  return make_float4(turned(v.x, c.x, s.x), turned(v.y, c.y, s.y), turned(v.z, c.z, s.z), turned(v.w, c.w, s.w));
}

// One slice of the cache of one key head for its 8 query heads: a team is 8 warps, one for each head, and the teams
// take turns with the blocks. A warp waits for no other but for the slots of the ring.
template <class S>
__device__ void Consumer<S>::attend(int l, int r, int split, const DecodeLayer& layer) {
  const int kv_head = b / S::kSplits, head = warp % S::kGroup, team = warp / S::kGroup, position = sh.position[r];
  const bool newest = split == S::kSplits - 1;
  const Slice slice = Slice::of<S>(position, split);
  const int teams = min(newest ? max(slice.count, 1) : slice.count, S::kTeams);
  if (team < teams) {
    const uint4* from = packets(S::kQkvAt) + r * kBlocks * S::kQkvPackets;
    const uint4* q_from = from + (kv_head * 32 + head * 4 + lane / 8) * S::kQkvPackets + lane % 8;
    float4 mine, k, v;
    if (newest && team == 0) {
      const uint4* k_from = from + (kv_head * S::kSplits + lane / 4 * 2) * S::kQkvPackets + 8 + lane % 4;
      const uint4* v_from = k_from + 16 * S::kQkvPackets;
      float4 got[5];  // k and v are sums over half of the inputs
      poll_floats<5>({q_from, k_from, k_from + S::kQkvPackets, v_from, v_from + S::kQkvPackets}, got, epoch, 4);
      mine = got[0];
      k = make_float4(got[1].x + got[2].x, got[1].y + got[2].y, got[1].z + got[2].z, got[1].w + got[2].w);
      v = make_float4(got[3].x + got[4].x, got[3].y + got[4].y, got[3].z + got[4].z, got[3].w + got[4].w);
      k = normed(k, sh.k_norm, layer.k_norm, r);
    } else {
      mine = poll_floats(q_from, epoch, 5);
    }
    stamp(l, 4);
    mine = normed(mine, sh.q_norm, layer.q_norm, r);
    const float scale = sh.model.attn_scale * 1.4426950408889634f;  // exp2 below
    mine = make_float4(mine.x * scale, mine.y * scale, mine.z * scale, mine.w * scale);

    float most = -INFINITY, sum = 0;
    float4 out = {};  // dimensions 4 lane ..
    if (newest && team == 0) {
      const float score = warp_sum((mine.x * k.x + mine.y * k.y) + (mine.z * k.z + mine.w * k.w));
      most = untagged(score), sum = exp2f(score - most);
      out = make_float4(sum * v.x, sum * v.y, sum * v.z, sum * v.w);
      if (head == 0) {
        float* block = layer.kv + sh.block[r] * sh.model.kv_block_stride;
        const int slot = position % kBlockTokens;
        float* key = block + (kv_head * S::kHeadDim + 4 * lane) * kBlockTokens + slot;
        key[0] = k.x, key[kBlockTokens] = k.y, key[2 * kBlockTokens] = k.z, key[3 * kBlockTokens] = k.w;
        float* value = block + ((S::kKvHeads + kv_head) * kBlockTokens + slot) * S::kHeadDim;
        reinterpret_cast<float4*>(value)[lane] = v;
      }
    }

    // For scores a lane has dimensions 16 dim .. 16 dim + 15 of 4 tokens, in an order that makes two rows that are read
    // together lie in different banks.
    const int tokens = lane % 4 * 4, dim = lane / 4, odd = dim % 2;
    float q[16];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int lender = lane / 4 * 4 + i;
      const float x = __shfl_sync(~0u, mine.x, lender), y = __shfl_sync(~0u, mine.y, lender);
      const float z = __shfl_sync(~0u, mine.z, lender), w = __shfl_sync(~0u, mine.w, lender);
      q[4 * i] = odd ? y : x, q[4 * i + 1] = odd ? x : y, q[4 * i + 2] = odd ? w : z, q[4 * i + 3] = odd ? z : w;
    }
#pragma unroll 1
    for (int j = team; j < slice.count; j += S::kTeams) {
      const int valid = min(kBlockTokens, position - (slice.first + j) * kBlockTokens);
      const char* keys = ring.wait(n + 2 * j) + dim * 1024 + dim / 4 * kPad + tokens * 4;
      stamp(l, 5);
      float4 s = {};
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const float4 k = *reinterpret_cast<const float4*>(keys + (i % 2 ? i - odd : i + odd) * 64);
        s.x += q[i] * k.x, s.y += q[i] * k.y, s.z += q[i] * k.z, s.w += q[i] * k.w;
      }
#pragma unroll
      for (int i = 4; i < 32; i *= 2) {
        s.x += __shfl_xor_sync(~0u, s.x, i), s.y += __shfl_xor_sync(~0u, s.y, i);
        s.z += __shfl_xor_sync(~0u, s.z, i), s.w += __shfl_xor_sync(~0u, s.w, i);
      }
      if (tokens >= valid) s.x = -INFINITY;
      if (tokens + 1 >= valid) s.y = -INFINITY;
      if (tokens + 2 >= valid) s.z = -INFINITY;
      if (tokens + 3 >= valid) s.w = -INFINITY;
      float top = fmaxf(fmaxf(s.x, s.y), fmaxf(s.z, s.w));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(most, untagged(fmaxf(top, __shfl_xor_sync(~0u, top, 2))));
      const float kept = exp2f(most - top);
      most = top;
      const float4 p = make_float4(exp2f(s.x - top), exp2f(s.y - top), exp2f(s.z - top), exp2f(s.w - top));
      float total = (p.x + p.y) + (p.z + p.w);
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      sum = sum * kept + total;
      out.x *= kept, out.y *= kept, out.z *= kept, out.w *= kept;
      const char* values = ring.wait(n + 2 * j + 1) + lane * 16;
#pragma unroll
      for (int t = 0; t < kBlockTokens; ++t) {
        const float w = __shfl_sync(~0u, t % 4 == 0 ? p.x : t % 4 == 1 ? p.y : t % 4 == 2 ? p.z : p.w, t / 4);
        if (t < valid) {  // behind them may be anything, NaN too
          const float4 v = *reinterpret_cast<const float4*>(values + t * 512 + t / 8 * kPad);
          out.x += w * v.x, out.y += w * v.y, out.z += w * v.z, out.w += w * v.w;
        }
      }
      sync_team(team);
      if (head == 0) ring.release(n + 2 * j, lane), ring.release(n + 2 * j + 1, lane);
    }

    if (team > 0) {
      auto& to = sh.team[r][team - 1][head];
      *reinterpret_cast<float4*>(to + 4 * lane) = out;
      if (lane == 0) to[S::kHeadDim] = most, to[S::kHeadDim + 1] = sum;
    }
    if (teams > 1) {
      __syncwarp();
      asm volatile("bar.sync 2, %0;" ::"r"(32 * S::kGroup * teams) : "memory");
    }
    if (team == 0) {
      for (int i = 0; i < teams - 1; ++i) {
        const auto& other = sh.team[r][i][head];
        const float4 o = *reinterpret_cast<const float4*>(other + 4 * lane);
        const float top = fmaxf(most, other[S::kHeadDim]), a = exp2f(most - top), c = exp2f(other[S::kHeadDim] - top);
        most = top, sum = a * sum + c * other[S::kHeadDim + 1];
        out.x = a * out.x + c * o.x, out.y = a * out.y + c * o.y;
        out.z = a * out.z + c * o.z, out.w = a * out.w + c * o.w;
      }
      // To the four blocks that combine 32 dimensions of this head each.
      uint4* to = packets(S::kPart) + (r * kBlocks + kv_head * S::kSplits + head * 4) * S::kUnitPackets;
      store_floats(to + lane / 8 * S::kUnitPackets + lane % 8 * S::kSplits + split, out, epoch);
      if (lane < 4)
        store_floats(to + lane * S::kUnitPackets + 8 * S::kSplits + split, make_float4(most, sum, 0, 0), epoch);
    }
  }
  n += 2 * slice.count;
}

// All slices of this block's 32 values of a: a lane has one slice, each of 8 warps 4 values.
template <class S>
__device__ void Consumer<S>::combine(int l, int r) {
  const int w = warp % 8;
  const bool wanted = lane == S::kSplits - 1 || Slice::of<S>(sh.position[r], lane).count > 0;
  const uint4* from = packets(S::kPart) + (r * kBlocks + b) * S::kUnitPackets + lane;
  float4 got[2];
  poll_floats<2>({from + w * S::kSplits, from + 8 * S::kSplits}, got, epoch, 6, wanted);
  const float4 v = got[0];
  stamp(l, 7);
  float top = wanted ? got[1].x : -INFINITY;
#pragma unroll
  for (int i = 16; i; i >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, i));
  float share = wanted ? exp2f(got[1].x - top) : 0;
  share = __fdividef(share, warp_sum(wanted ? share * got[1].y : 0));
  auto all = [&](float x) { return warp_sum(wanted ? share * x : 0); };
  auto& words = sh.a[r];
  const uint32_t low = pack_bf16(all(v.x), all(v.y)), high = pack_bf16(all(v.z), all(v.w));
  if (lane == 0) words[2 * w] = low, words[2 * w + 1] = high;
  sync_team(warp / 8);
  if (w == 0) publish<6>(packets(S::kA) + r * kCopies * S::kAPackets, b, kBlocks, words[lane % 16], epoch, lane);
}

// From q, k and v to a, and to the part of the router's logits that a brings.
template <class S>
__device__ void Consumer<S>::attention(int l) {
#pragma unroll 1
  for (int r = 0; r < kRows; ++r) attend(l, r, b % S::kSplits, sh.layer[l & 1]);
  stamp(l, 6);
  forget();
#pragma unroll 1
  for (int r = warp / 8; r < kRows; r += S::kTeams)
    if (warp / 8 < S::kTeams) combine(l, r);
  stamp(l, 8);
  forget();

  const char *first = ring.wait(n), *second = ring.wait(n + 1);  // of this block's expert
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    gather_packets<S::kAPackets>(copy_of(S::kA, r, S::kAPackets), 7, [&](int p, uint4 v) {
      const int at = p / 6 * 32 + p % 6 * 6;
      auto dot = [&](int k, uint32_t word) {
        const float2 w = value<float2>(at < kPartBytes / 4 ? first : second, at % (kPartBytes / 4) + 2 * k);
        return w.x * bf16_lo(word) + w.y * bf16_hi(word);
      };
      uint32_t* to = sh.act[r] + padded(at / 2);
      to[0] = v.x;
      float sum = dot(0, v.x);
      if (p % 6 < 5) to[1] = v.y, to[2] = v.z, sum += dot(1, v.y) + dot(2, v.z);
      sum = warp_sum(sum);
      if (lane == 0) sh.logit_a[r][p / 32] = sum;
    });
  }
}

}  // namespace colibri::cuda
