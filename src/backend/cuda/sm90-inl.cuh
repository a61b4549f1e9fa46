// SPDX-License-Identifier: Apache-2.0
// What sm_90 kernels are made of: mbarriers, bulk copies into a ring of shared memory, bf16 mma, and packets, which are
// data and flag in one access.
// Invariant: a reader that sees a packet's epoch also has its data; no other fence or flag is needed. With
// COLIBRI_SPIN_LIMIT, of harness builds, a wait of that many ns sets `stuck`, and the kernel ends with wrong results.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>

namespace colibri::cuda {

// Counts the turns of a loop that waits for others; turn() is true when it should give up.
#ifdef COLIBRI_SPIN_LIMIT
static __device__ unsigned stuck = 0;
struct Spin {
  unsigned n = 0, place;
  uint64_t start = 0;
  __device__ explicit Spin(unsigned at) : place(at) {}
  __device__ bool turn() {
    if (++n % 64 != 0) return false;
    if (*static_cast<volatile unsigned*>(&stuck) != 0) return true;
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (start == 0) start = now;
    if (now - start < COLIBRI_SPIN_LIMIT) return false;
    if (atomicAdd(&stuck, 1) < 8) printf("stuck at place %u, block %u, thread %u\n", place, blockIdx.x, threadIdx.x);
    return true;
  }
};
#else
struct Spin {
  __device__ explicit Spin(unsigned) {}
  __device__ bool turn() { return false; }
};
#endif

__device__ __forceinline__ uint32_t smem(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void mbar_init(uint64_t* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(count));
}
__device__ __forceinline__ void mbar_expect(uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbar_arrive(uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
}
__device__ __forceinline__ bool mbar_try(uint64_t* bar, uint32_t parity) {
  uint32_t ok;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(ok)
               : "r"(smem(bar)), "r"(parity)
               : "memory");
  return ok;
}
__device__ __forceinline__ void mbar_wait(uint64_t* bar, uint32_t parity, unsigned place = 1) {
  Spin spin(place);
  while (!mbar_try(bar, parity) && !spin.turn()) {
  }
}

// By a whole warp, which stays together: lanes that leave such a loop on their own make every later shuffle slow.
__device__ __forceinline__ void mbar_wait_warp(uint64_t* bar, uint32_t parity) {
  Spin spin(2);
  while (!__all_sync(~0u, mbar_try(bar, parity) || spin.turn())) {
  }
}

__device__ __forceinline__ uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint64_t evict_last_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// Global to shared, bytes a multiple of 16, completes on `bar`.
__device__ __forceinline__ void bulk_copy(void* dst, const void* src, int bytes, uint64_t* bar, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(smem(dst)),
      "l"(src), "r"(bytes), "r"(smem(bar)), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void bulk_prefetch(const void* src, int bytes, uint64_t policy) {
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(src), "r"(bytes), "l"(policy)
               : "memory");
}

// d[16x8] += a[16x16] b[16x8], bf16 in, fp32 out.
__device__ __forceinline__ void mma_16816(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                          uint32_t b0, uint32_t b1) {
  asm(  // not volatile: the loads of the next steps may pass it
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A packet: three data words and an epoch, written and read as one 16-byte access, so a reader that sees the epoch
// also has the data. Use all three words: ptxas narrows a 128-bit load whose middle words are unused to two 32-bit
// loads, and the pair tears (seen with CUDA 13.0). For one word there is the 8-byte packet.
__device__ __forceinline__ void store_packet(uint4* p, uint32_t x, uint32_t y, uint32_t z, uint32_t epoch) {
  asm volatile(
      "{\n.reg .b64 lo, hi;\n.reg .b128 v;\nmov.b64 lo, {%1,%2};\nmov.b64 hi, {%3,%4};\nmov.b128 v, {lo,hi};\n"
      "st.relaxed.gpu.global.b128 [%0], v;\n}" ::"l"(p),
      "r"(x), "r"(y), "r"(z), "r"(epoch)
      : "memory");
}
__device__ __forceinline__ uint4 load_packet(const uint4* p) {
  uint4 v;
  asm volatile(
      "{\n.reg .b64 lo, hi;\n.reg .b128 v;\nld.relaxed.gpu.global.b128 v, [%4];\nmov.b128 {lo,hi}, v;\n"
      "mov.b64 {%0,%1}, lo;\nmov.b64 {%2,%3}, hi;\n}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(p)
      : "memory");
  return v;
}
__device__ __forceinline__ void store_packet(uint2* p, uint32_t x, uint32_t epoch) {
  asm volatile("{\n.reg .b64 v;\nmov.b64 v, {%1,%2};\nst.relaxed.gpu.global.b64 [%0], v;\n}" ::"l"(p), "r"(x),
               "r"(epoch)
               : "memory");
}
__device__ __forceinline__ uint2 load_packet(const uint2* p) {
  uint2 v;
  asm volatile("{\n.reg .b64 v;\nld.relaxed.gpu.global.b64 v, [%2];\nmov.b64 {%0,%1}, v;\n}"
               : "=r"(v.x), "=r"(v.y)
               : "l"(p)
               : "memory");
  return v;
}
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_release(uint32_t* p, uint32_t v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void add_release(uint32_t* p, uint32_t v) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ float bf16_lo(uint32_t w) { return __uint_as_float(w << 16); }
__device__ __forceinline__ float bf16_hi(uint32_t w) { return __uint_as_float(w & 0xffff0000u); }
__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
  __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&v);
}
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int i = 16; i; i >>= 1) v += __shfl_xor_sync(~0u, v, i);
  return v;
}

// One ring of kSlots slots of kSlot bytes, filled in order by one producer thread (or by several, each
// with every k-th chunk, k a divisor of kSlots and of the window), each slot emptied by one warp.
// A slot is filled in two halves; the second lies kPad bytes further: with 32, an mma A fragment read in tile order
// ([K/2][16 rows][2]) touches all 32 banks once, because lanes 0,1 of a quad take k from the first half and 2,3 from
// the second.
// A warp may ask for chunk n before chunk n - kSlots of the same slot has landed (copies land out of order, and that
// chunk belongs to another warp), when the one-bit parity of `full` would pass at once: so wait() asks `empty` first.
template <int kSlot, int kSlots, int kPad>
struct Ring {
  static constexpr int kStride = kSlot + kPad;
  static constexpr int kBytes = kStride * kSlots;
  char* base;
  uint64_t *full, *empty;

  __device__ void init() {
    for (int i = 0; i < kSlots; ++i) mbar_init(&full[i], 1), mbar_init(&empty[i], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");  // before the copy engine may see them
  }
  // At most `window` chunks are on their way at a time, however many slots are free: a longer queue at the memory adds
  // no bandwidth, and every flag and packet of the other warps waits in it.
  __device__ void push(uint32_t n, const char* src, int bytes, uint64_t policy, uint32_t window = kSlots) {
    const uint32_t s = n % kSlots;
    if (n >= kSlots) mbar_wait(&empty[s], (n / kSlots - 1) & 1);
    if (window < kSlots && n >= window) mbar_wait(&full[(n - window) % kSlots], ((n - window) / kSlots) & 1);
    mbar_expect(&full[s], bytes);
    if (kPad == 0) {
      bulk_copy(base + s * kStride, src, bytes, &full[s], policy);
    } else {
      bulk_copy(base + s * kStride, src, bytes / 2, &full[s], policy);
      bulk_copy(base + s * kStride + bytes / 2 + kPad, src + bytes / 2, bytes / 2, &full[s], policy);
    }
  }
  __device__ const char* wait(uint32_t n) const {
    if (n >= kSlots) mbar_wait_warp(&empty[n % kSlots], (n / kSlots - 1) & 1);
    mbar_wait_warp(&full[n % kSlots], (n / kSlots) & 1);
    return base + (n % kSlots) * kStride;
  }
  __device__ void release(uint32_t n, int lane) const {
    __syncwarp();
    if (lane == 0) mbar_arrive(&empty[n % kSlots]);
  }
};

// Four words of padding after each 32: the four ranges of inputs that an mma step reads then lie in different banks.
__host__ __device__ constexpr int padded(int word) { return word + word / 32 * 4; }

// Chunk `at` of the ring, 16 rows of `bytes` / 32 inputs in tile order, times `x` (bf16 pairs, word w at padded(w));
// the chunk is released. 16 sums for token t = lane % 4, rows 4 g .. 4 g + 3 in lanes with g = lane / 4 < 4; x holds
// the inputs of the token that the lane feeds, lane / 8. A lane reads 16 bytes, four rows of one k pair, so 16 rows
// take four of the eight lane groups g, and the other four work on another range of K: x of the one range sits in the
// even columns of B, of the other in the odd ones, and D's useful column is the range's own. With the slot's two halves
// 32 bytes apart the reads of a warp are free of bank conflicts. At 4 tokens the 8 columns are full.
template <int kSlot, int kSlots, int kPad>
__device__ __forceinline__ float4 part_sums(const Ring<kSlot, kSlots, kPad>& ring, uint32_t at, const uint32_t* x,
                                            int bytes, int lane) {
  const char* slot = ring.wait(at);
  const int g = lane / 4, t = lane % 4, quarter = bytes / 256;  // k pairs per range
  const char* w = slot + (t >> 1) * (bytes / 2 + kPad) + (g >> 2) * (bytes / 4) + (t & 1) * 64 + (g & 3) * 16;
  const uint32_t* v = x + padded((t >> 1) * 2 * quarter + (g & 1) * quarter) + (t & 1);
  float acc[4][4] = {};
#pragma unroll 1
  for (int s = 0; s < quarter; s += 8, w += 512, v += 8) {
    uint4 p[2], q[2];
    uint2 b2[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      p[i] = *reinterpret_cast<const uint4*>(w + i * 256), q[i] = *reinterpret_cast<const uint4*>(w + i * 256 + 128);
      b2[i] = {v[4 * i], v[4 * i + 2]};
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      mma_16816(acc[2 * i], p[i].x, p[i].y, q[i].x, q[i].y, b2[i].x, b2[i].y);
      mma_16816(acc[2 * i + 1], p[i].z, p[i].w, q[i].z, q[i].w, b2[i].x, b2[i].y);
    }
  }
  ring.release(at, lane);
  float sum[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int m = r / 2, c = r % 2 * 2;
    sum[r] = g < 4 ? acc[m][c] + acc[m + 2][c] : acc[m][c + 1] + acc[m + 2][c + 1];
    sum[r] += __shfl_xor_sync(~0u, sum[r], 16);
  }
  return make_float4(sum[0], sum[1], sum[2], sum[3]);
}

}  // namespace colibri::cuda
