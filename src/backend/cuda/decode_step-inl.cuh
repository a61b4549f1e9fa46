// SPDX-License-Identifier: Apache-2.0
// decode_step, phase by phase. A phase is gather (every block polls the packets of all), consume (one warp per part,
// partial sums to red), sync, publish (a few warps, while the others already poll the next).
// Invariant: sums have a fixed order that does not depend on the number of rows; there are no atomics.
#pragma once
#include <cfloat>

#include "backend/cuda/decode_attention-inl.cuh"

namespace colibri::cuda {

// The last warps of a block rank the experts' logits, which are before 1 / rms: all of a row have the same. `record` is
// that of the expert tid / 2 of theirs.
template <class S>
__device__ void Consumer<S>::route(int l, const std::byte* record) {
  constexpr int kFirst = kThreads - 32 * kRouteWarps;
  const int t = tid - kFirst, e = t / 2, w = warp - kFirst / 32;
  auto sync_routers = [] {
    __syncwarp();
    asm volatile("bar.sync 7, %0;" ::"n"(32 * kRouteWarps) : "memory");
  };
  if (t < S::kExperts)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint2* p = reinterpret_cast<const uint2*>(packets(S::kLogit)) + (r * kCopies + b % kCopies) * kBlocks + t;
      uint2 v[1];
      poll<uint2, 1>(
          {p}, v, [&](uint2 x) { return x.y == epoch; }, 8);
      sh.logit[r][t] = __uint_as_float(v[0].x);
    }
  sync_routers();
  int rank[kRows];
  bool any = false;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float mine = sh.logit[r][e];
    rank[r] = 0;
#pragma unroll 4
    for (int i = t % 2 * 64; i < t % 2 * 64 + 64; i += 4) {
      const float4 o = *reinterpret_cast<const float4*>(&sh.logit[r][i]);
      rank[r] += (o.x > mine || (o.x == mine && i < e)) + (o.y > mine || (o.y == mine && i + 1 < e)) +
                 (o.z > mine || (o.z == mine && i + 2 < e)) + (o.w > mine || (o.w == mine && i + 3 < e));
    }
    rank[r] += __shfl_xor_sync(~0u, rank[r], 1);
    any |= rank[r] < S::kTop;
  }
  const uint32_t mask = __ballot_sync(~0u, any) & 0x55555555u;
  if (lane == 0) sh.any[w] = mask;
  sync_routers();
  int at = __popc(mask & ((1u << lane) - 1)), all = 0;
#pragma unroll
  for (int i = 0; i < kRouteWarps; ++i) {
    const int count = __popc(sh.any[i]);
    if (i < w) at += count;
    all += count;
  }
  if (any && t % 2 == 0) {
    sh.record[at] = record;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool chosen = rank[r] < S::kTop;
      sh.rank[r][at] = chosen ? rank[r] : -1;
      if (!chosen) continue;
      sh.chosen[r][rank[r]] = sh.logit[r][e];
      if (b == 0 && sh.step.experts) sh.step.experts[(l * kRows + r) * S::kTop + rank[r]] = e;
    }
  }
  if (t == 0) sh.n_experts = all;
  __syncwarp();
  if (lane == 0) mbar_arrive(&sh.routed);
}

template <class S>
__device__ void Consumer<S>::layer(int l) {
  const DecodeLayer& layer = sh.layer[l & 1];
  constexpr int kLayerWords = sizeof(DecodeLayer) / 4;

  // x: norm, q k v, and the part of the router's logits that x brings
  stamp(l, 0);
  forget();
  {
    uint32_t next = 0;
    float4 head_norm;
    const float* head_norms = tid < 32 ? layer.q_norm : layer.k_norm;
    if (tid < 64 && head_norms) head_norm = __ldg(reinterpret_cast<const float4*>(head_norms) + lane);
    if (tid < kLayerWords) next = reinterpret_cast<const uint32_t*>(sh.model.layers + l + 1)[tid];
    const char* router = ring.wait(n + 1);  // of this block's expert
    gather_rows(S::kX, [&](int r, float4 v) {
      const float4 w = value<float4>(router, 4 * tid);
      const float sum = warp_sum((w.x * v.x + w.y * v.y) + (w.z * v.z + w.w * v.w));
      if (lane == 0) sh.logit_x[r][warp] = sum;
    });
    if (tid < kLayerWords) reinterpret_cast<uint32_t*>(&sh.layer[(l + 1) & 1])[tid] = next;
    if (tid < 64 && head_norms) reinterpret_cast<float4*>(tid < 32 ? sh.q_norm : sh.k_norm)[lane] = head_norm;
  }
  sync();
  release(2);
  stamp(l, 1);
  forget();
#pragma unroll 1
  for (int c = warp; c < S::kQkvParts; c += kWarps)
    part(c, (c < 2 * S::kXParts ? c % S::kXParts : b % 2 * (S::kXParts / 2) + c - 2 * S::kXParts) * kPartWords);
  n += S::kQkvParts;
  sync();
  stamp(l, 2);
  forget();
  if (warp < 2 * kRows) {
    const int r = warp / 2;
    uint4* to = packets(S::kQkvAt) + (r * kBlocks + b) * S::kQkvPackets;
    const float scale = inv_rms(r);
    if (warp % 2 == 0) {
      const float4 q = quad(rows<S::kXParts>(0, S::kXParts, r) * scale, lane);
      if (lane < 8) store_floats(to + lane, q, epoch);
    } else {
      const float4 kv = quad(rows<S::kXParts / 2>(2 * S::kXParts, 2 * S::kXParts, r) * scale, lane);
      if (lane < 4) store_floats(to + 8 + lane, kv, epoch);
    }
  }
  stamp(l, 3);
  forget();

  attention(l);
  sync();
  release(2);
  stamp(l, 9);
  forget();
  if (warp >= kWarps - kRows) {  // the logits, before the O product that they do not wait for
    const int r = warp - (kWarps - kRows);
    float sum =
        warp_sum(lane < 16 ? sh.logit_x[r][lane] : 0) + warp_sum(lane < S::kAPackets / 32 ? sh.logit_a[r][lane] : 0);
    sum = sum == sum ? fminf(fmaxf(sum, -FLT_MAX), FLT_MAX) : -FLT_MAX;  // so that the ranks are a permutation
    if (lane < kCopies) {
      auto* to = reinterpret_cast<uint2*>(packets(S::kLogit)) + (r * kCopies + lane) * kBlocks + b;
      store_packet(to, __float_as_uint(sum), epoch);
    }
  }
  // Half of the warps are enough for O: the experts are waited for sooner than y is.
  constexpr int kOWarps = kWarps - kRouteWarps;
  if (warp < kOWarps)
#pragma unroll 1
    for (int c = warp; c < S::kOParts; c += kOWarps) part(c, c * kPartWords);
  else
    route(l, layer.records[(tid - 32 * kOWarps) / 2]);
  n += S::kOParts;
  sync();
  stamp(l, 10);
  forget();
  if (warp < kRows) {
    const float sum = rows<S::kOParts / 2>(0, S::kOParts / 2, warp);
    add_and_publish(sum, S::kY, epoch);
  }
  stamp(l, 11);
  forget();

  // y: norm, experts
  gather_rows(S::kY, [](int, float4) {});
  sync();
  release(1);
  stamp(l, 12);
  forget();
  const int experts = sh.n_experts, all_pairs = (experts * S::kTiles - b + kBlocks - 1) / kBlocks;
#pragma unroll 1
  for (int done = 0; done < all_pairs; done += S::kPairs) {
    const int pairs = kRows == 1 ? S::kPairs : min(S::kPairs, all_pairs - done);
    if (done > 0) sync();  // the sums of the last round have been read
#pragma unroll 1
    for (int c = warp; c < pairs * 2 * S::kXParts; c += kWarps) part(c, c % S::kXParts * kPartWords);
    n += pairs * 2 * S::kXParts;
    sync();
    const int i = warp / kRows, r = warp % kRows;
    if (i < pairs) {
      const int index = (done + i) * kBlocks + b, rank = sh.rank[r][index / S::kTiles];
      if (rank >= 0) {  // lanes 0..15 gate rows, 16..31 up rows
        const float v = rows<S::kXParts>(i * 2 * S::kXParts, (i * 2 + 1) * S::kXParts, r) * inv_rms(r);
        const float h = __fdividef(v, 1 + __expf(-v)) * __shfl_down_sync(~0u, v, 16);
        publish<3>(packets(S::kH) + r * kCopies * S::kHPackets, rank * S::kTiles + index % S::kTiles,
                   S::kTop * S::kTiles, pair(h, lane), epoch, lane);
      }
    }
  }
  stamp(l, 13);
  forget();

  // h: down, summed by rank
  float share = 0;
  if (warp < kRows) {
    const float scale = inv_rms(warp), best = sh.chosen[warp][0];
    const float mine = lane < S::kTop ? __expf((sh.chosen[warp][lane] - best) * scale) : 0;
    float total = mine;
    if (!sh.model.norm_topk) {
      total = 0;
#pragma unroll
      for (int e = 0; e < S::kExperts; e += 32) total += __expf((sh.logit[warp][e + lane] - best) * scale);
    }
    share = __fdividef(mine, warp_sum(total)) * sh.model.router_scale;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    gather_packets<S::kHPackets>(copy_of(S::kH, r, S::kHPackets), 9, [&](int p, uint4 v) {
      uint32_t* to = sh.act[r] + padded(p / 3 * 8) + p % 3 * 3;
      to[0] = v.x, to[1] = v.y;
      if (p % 3 < 2) to[2] = v.z;
    });
  }
  sync();
  stamp(l, 14);
  forget();
#pragma unroll 1
  for (int c = warp; c < experts * S::kDParts; c += kWarps) {
    const int u = c / S::kDParts, k = c % S::kDParts, feeds = max(sh.rank[token()][u], 0);
    const float4 sums = consume(n + c, sh.act[token()] + padded(feeds * (S::kF / 2) + k * kPartWords));
    const int r = lane % 4, rank = r < kRows ? sh.rank[r][u] : -1;
    if (rank >= 0 && lane < 16) *reinterpret_cast<float4*>(&sh.red[rank * S::kDParts + k][r][lane / 4 * 4]) = sums;
  }
  n += experts * S::kDParts;
  sync();
  stamp(l, 15);
  forget();
  if (warp < kRows) {
    float sum = 0;
#pragma unroll
    for (int e = 0; e < S::kTop / 2; ++e)
      sum += __shfl_sync(~0u, share, lane < 16 ? e : e + S::kTop / 2) *
             rows<S::kDParts>(e * S::kDParts, (e + S::kTop / 2) * S::kDParts, warp);
    add_and_publish(sum, S::kX, epoch + 1);
  }
}

struct Best {
  float value = -INFINITY;
  int id = 0;
  __device__ void meet(float v, int i) {
    if (v > value || (v == value && i < id)) value = v, id = i;
  }
  template <int kFrom>
  __device__ void of_lanes() {  // that are equal modulo kFrom
#pragma unroll
    for (int i = 16; i >= kFrom; i >>= 1) meet(__shfl_xor_sync(~0u, value, i), __shfl_xor_sync(~0u, id, i));
  }
};

// Head tiles b, b + 128, .., a warp has whole ones. Then the most likely id of all blocks.
template <class S>
__device__ void Consumer<S>::head() {
  gather_rows(S::kX, [](int, float4) {});
  sync();
  release(1);
  const int vocab = sh.model.vocab, tiles = S::head_tiles(vocab, b), r = lane % 4;
  float scale = 0;
  for (int i = 0; i < 16; ++i) scale += sh.sumsq[min(r, kRows - 1)][i];
  scale = rsqrtf(scale / S::kD + sh.model.norm_eps);
  Best best;
#pragma unroll 1
  for (int first = 0; first < tiles; first += kWarps) {
    const int width = S::head_width(tiles - first);
    if (warp < width) {
      float4 sum = {};
#pragma unroll 1
      for (int p = 0; p < S::kXParts; ++p) {
        const float4 v = consume(n + p * width + warp, sh.act[token()] + padded(p * kPartWords));
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
      }
      const float row[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int id = (b + (first + warp) * kBlocks) * 16 + lane / 4 * 4 + i;
        if (r >= kRows || lane >= 16 || first + warp >= tiles || id >= vocab) continue;
        sh.step.logits[static_cast<size_t>(r) * vocab + id] = row[i] * scale;
        best.meet(row[i] * scale, id);
      }
    }
    n += width * S::kXParts;
  }
  best.of_lanes<4>();
  auto& found = *reinterpret_cast<Best(*)[kWarps][4]>(&sh.red);
  if (lane < 4) found[warp][lane] = best;
  sync();
  if (warp >= kRows) return;
  best = found[lane % kWarps][warp];
  best.of_lanes<1>();
  uint4* to = packets(S::kBest) + warp * kBlocks;
  if (lane == 0) store_packet(to + b, __float_as_uint(best.value), best.id, best.id, epoch);
  if (b > 0) return;
  for (int i = lane; i < kBlocks; i += 32) {
    uint4 v[1];
    poll<uint4, 1>(
        {to + i}, v, [&](uint4 x) { return x.w == epoch; }, 10);
    best.meet(__uint_as_float(v[0].x), static_cast<int>(v[0].y | v[0].z));
  }
  best.of_lanes<1>();
  if (lane == 0) sh.step.next[warp] = best.id;
}

template <class S>
__global__ void __launch_bounds__(kThreads + 32 * kProducers, 1)
    decode_step(const __grid_constant__ DecodeModel model, const __grid_constant__ DecodeStep step) {
  extern __shared__ __align__(128) char buffer[];
  auto& sh = *reinterpret_cast<Shared<S>*>(buffer + S::kRingBytes);
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, b = blockIdx.x;
  Ring<kPartBytes, S::kSlots, kPad> ring{buffer, sh.full, sh.empty};
  auto* workspace = static_cast<uint4*>(step.workspace);
  if (tid == 0) {
    sh.model = model, sh.step = step, sh.epoch = workspace->x;
    mbar_init(&sh.routed, kRouteWarps);
    ring.init();
  }
  if (tid < static_cast<int>(sizeof(DecodeLayer) / 4))
    reinterpret_cast<uint32_t*>(&sh.layer[0])[tid] = reinterpret_cast<const uint32_t*>(model.layers)[tid];
  if (tid < S::kHeadDim / 2)
    for (int r = 0; r < S::kRows; ++r) {
      const int position = step.positions[r];
      if (tid == 0) {
        sh.position[r] = position, sh.block[r] = step.tables[r][position / kBlockTokens];
        const Slice slice = Slice::of<S>(position, b % S::kSplits);
        if (slice.count > 0) sh.first_block[r] = step.tables[r][slice.first];
      }
      float s, c;
      sincosf(static_cast<float>(position) * model.inv_freq[tid], &s, &c);
      sh.cosine[r][tid] = c * model.rope_scale, sh.sine[r][tid] = s * model.rope_scale;
    }
  __syncthreads();
  if (warp >= kWarps) {
    if (lane == 0) produce<S>(warp - kWarps, ring, sh);
    return;
  }
  Consumer<S> consumer{sh, ring};
  consumer.epoch = sh.epoch + 1;
  if (warp < S::kRows) {
    const int token = step.tokens[warp], row = b * 16 + lane % 16;
    const auto* tile = reinterpret_cast<const uint32_t*>(model.embedding + token / 16 * S::kTileBytes);
    const uint32_t word = tile[row / 2 * 16 + token % 16];
    if (lane < 16) sh.residual[warp][lane] = row % 2 ? bf16_hi(word) : bf16_lo(word);
    __syncwarp();
    consumer.add_and_publish(0, S::kX, consumer.epoch);
  }
#pragma unroll 1
  for (int l = 0; l < model.n_layers; ++l, ++consumer.epoch) consumer.layer(l);
  consumer.head();
  consumer.stamp(model.n_layers, 0);
  // All blocks have read the epoch: this one has had the packets of them all.
  if (b == 0 && tid == 0) workspace->x = consumer.epoch;
}

}  // namespace colibri::cuda
