// SPDX-License-Identifier: Apache-2.0
// Purpose: decode_kernel.cuh, the first half of a phase: bring its input to sh.act (and sumsq, qs, ks, vs, logit).
// Invariant: ends before a block_sync that its includer makes.
auto route = [&](uint32_t epoch) {  // every block ranks the same 128 logits; the eight winners wake the producer
  if (tid < kBlocks) {
    uint2 v = load_packet(a.logit + copy * kBlocks + tid);
    while (v.y != epoch) v = load_packet(a.logit + copy * kBlocks + tid);
    sh.logit[tid] = __uint_as_float(v.x);
  }
  block_sync();
  const int me = tid / 4, from = tid % 4 * 32;
  const float mine = sh.logit[me];
  int rank = 0;
#pragma unroll 4
  for (int i = from; i < from + 32; i += 4) {
    const float4 o = *reinterpret_cast<const float4*>(&sh.logit[i]);
    rank += (o.x > mine || (o.x == mine && i < me)) + (o.y > mine || (o.y == mine && i + 1 < me)) +
            (o.z > mine || (o.z == mine && i + 2 < me)) + (o.w > mine || (o.w == mine && i + 3 < me));
  }
  rank += __shfl_xor_sync(~0u, rank, 1);
  rank += __shfl_xor_sync(~0u, rank, 2);
  if (tid % 4 == 0 && rank < kTop) {
    sh.sel[l & 1][rank] = me, sh.sel_logit[rank] = mine;
    if (b == 0) a.picked[l * kTop + rank] = me;
    mbar_arrive(&sh.routed);
  }
};
if (phase % 2 == 0) {  // the residual stream: bf16, and the sums of squares of the fp32 rows
  if (phase == 2 && kRoute == Route::kEarly) route(epoch);
  gather<kBlocks * 3>((phase == 0 ? a.x : a.y) + copy * kBlocks * 3, epoch, tid, a.backoff, [&](int p, uint4 v) {
    uint32_t* to = sh.act + padded(p / 3 * 8) + p % 3 * 3;
    to[0] = v.x, to[1] = v.y;
    if (p % 3 < 2)
      to[2] = v.z;
    else
      sh.sumsq[p / 3] = __uint_as_float(v.z);
  });
} else if (phase < 2) {
  // Attention stub: block b gives 32 values of head b / 4 from q and the new k and v (each a sum of two halves).
  const int head = b / 4, group = head / 8;
  if (tid < 164) {
    const int kind = tid < 44 ? 0 : tid < 140 ? 1 : 2, u = tid - (kind == 0 ? 0 : kind == 1 ? 44 : 140);
    const int per = kind ? 6 : 11, from = u / per, w0 = u % per * 3;
    const int block = kind == 0 ? 4 * head + from : kind == 1 ? 16 * group + from : 64 + 16 * group + b % 4 * 4 + from;
    const uint4 v = poll(a.qkv_out + block * 17 + (kind ? 11 : 0) + u % per, epoch, a.backoff);
    float* to = kind == 0   ? &sh.qs[from * 32 + w0]
                : kind == 1 ? &sh.ks[from % 2][from / 2 * 16 + w0]
                            : &sh.vs[from % 2][from / 2 * 16 + w0];
    const int end = kind ? 16 : 32;
    to[0] = __uint_as_float(v.x);
    if (w0 + 1 < end) to[1] = __uint_as_float(v.y);
    if (w0 + 2 < end) to[2] = __uint_as_float(v.z);
  }
  block_sync();
  if (warp == 0) {
    float s = 0;
    for (int i = lane; i < 128; i += 32) s += sh.qs[i] * (sh.ks[0][i] + sh.ks[1][i]);
    s = warp_sum(s) * 0.08838834765f;
    const float v = __fdividef(sh.vs[0][lane] + sh.vs[1][lane], 1 + __expf(-s));
    publish<6, kCopies>(a.a, b, kBlocks, pack_pairs(v, lane), epoch, lane);
  }
  meet();
  gather<kBlocks * 6>(a.a + copy * kBlocks * 6, epoch, tid, a.backoff, [&](int p, uint4 v) {
    uint32_t* to = sh.act + padded(p / 6 * 16) + p % 6 * 3;
    to[0] = v.x;
    if (p % 6 < 5) to[1] = v.y, to[2] = v.z;
  });
  if (kRoute == Route::kEarly) {
    block_sync();
    float sum = logit_x;
    for (int i = 0; i < 2; ++i) {
      const uint32_t w0 = sh.act[padded(tid * 4) + 2 * i], w1 = sh.act[padded(tid * 4) + 2 * i + 1];
      sum += wo[i].x * bf16_lo(w0) + wo[i].y * bf16_hi(w0) + wo[i].z * bf16_lo(w1) + wo[i].w * bf16_hi(w1);
    }
    router_sum(sum, epoch);
  }
} else {
  if (warp == 0) {  // the experts' shares, while the others finish
    const float w = lane < kTop ? __expf((sh.sel_logit[lane & 7] - sh.sel_logit[0]) * scale) : 0;
    share = __fdividef(w, warp_sum(w));
  }
  gather<kBlocks * 9>(a.h + copy * kBlocks * 9, epoch, tid, a.backoff, [&](int p, uint4 v) {
    const int pair = p / 3 % 3 * kBlocks + p / 9;
    uint32_t* to = sh.act + padded(pair / 48 * (kF / 2) + pair % 48 * 8) + p % 3 * 3;
    to[0] = v.x, to[1] = v.y;
    if (p % 3 < 2) to[2] = v.z;
  });
}
