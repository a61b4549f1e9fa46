// SPDX-License-Identifier: Apache-2.0
// Purpose: what the gate programs share: error check, median timing, JSON lines, hashed bf16 weights that host and
// device agree on, and the sm_90 primitives (mbarrier, bulk copy, mma, 16-byte packets).
// Invariant: hash_weight(i) is the same value on host and device, so a CPU reference needs no copy of the weights.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#define CUDA_CHECK(expr)                                                                           \
  do {                                                                                             \
    cudaError_t err_ = (expr);                                                                     \
    if (err_ != cudaSuccess) {                                                                     \
      std::fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #expr, cudaGetErrorString(err_)); \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)

namespace gates {

constexpr double kStreamTBs = 4.65;  // read-only stream of one H200, the denominator of every percentage

// ---- host: timing and output -----------------------------------------------------------------------------------

// Median of n timed launches in ms, after two warm-ups. `launch(i)` gets a running number so that it can rotate inputs.
template <class F>
float median_ms(F launch, int n = 15) {
  cudaEvent_t a, b;
  CUDA_CHECK(cudaEventCreate(&a));
  CUDA_CHECK(cudaEventCreate(&b));
  std::vector<float> times;
  for (int i = -2; i < n; ++i) {
    CUDA_CHECK(cudaEventRecord(a));
    launch(i + 2);
    CUDA_CHECK(cudaEventRecord(b));
    CUDA_CHECK(cudaEventSynchronize(b));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, a, b));
    if (i >= 0) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// One line for people on stdout, one JSON object per line appended to $OUT/<gate>.jsonl when OUT is set.
inline void report(const char* gate, const std::string& name, double value, const char* unit, double error = -1) {
  std::printf("%-12s %-62s %10.3f %s", gate, name.c_str(), value, unit);
  if (error >= 0) std::printf("  (relative error %.1e)", error);
  std::printf("\n");
  std::fflush(stdout);
  const char* out = std::getenv("OUT");
  if (!out) return;
  if (FILE* f = std::fopen((std::string(out) + "/" + gate + ".jsonl").c_str(), "a")) {
    std::fprintf(f, "{\"gate\":\"%s\",\"name\":\"%s\",\"value\":%.4f,\"unit\":\"%s\"", gate, name.c_str(), value, unit);
    if (error >= 0) std::fprintf(f, ",\"relative_error\":%.2e", error);
    std::fprintf(f, "}\n");
    std::fclose(f);
  }
}

inline double relative_error(const std::vector<double>& ref, const std::vector<double>& out) {
  double num = 0, den = 0;
  for (size_t i = 0; i < ref.size(); ++i) num += (out[i] - ref[i]) * (out[i] - ref[i]), den += ref[i] * ref[i];
  return std::sqrt(num / den);  // NaN stays NaN and fails every `<` test
}

// ---- both: weights by hash -------------------------------------------------------------------------------------

__host__ __device__ inline uint32_t mix(uint64_t i) {
  uint32_t h = static_cast<uint32_t>(i) * 0x9E3779B1u ^ static_cast<uint32_t>(i >> 32) * 0x85EBCA77u;
  h ^= h >> 15, h *= 0x2C1B3C6Du, h ^= h >> 12, h *= 0x297A2D39u, h ^= h >> 15;
  return h;
}

// Uniform in (-scale, scale), rounded to bf16.
__host__ __device__ inline __nv_bfloat16 hash_weight(uint64_t i, float scale) {
  return __float2bfloat16((static_cast<float>(mix(i) >> 8) * (2.0f / 16777216.0f) - 1.0f) * scale);
}

inline double hash_double(uint64_t i, float scale) { return __bfloat162float(hash_weight(i, scale)); }

// ---- device: shared-memory ring, mma, packets ------------------------------------------------------------------

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
__device__ __forceinline__ void mbar_wait(uint64_t* bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra "
      "WAIT;\nDONE:\n}" ::"r"(smem(bar)),
      "r"(parity)
      : "memory");
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
    if (n >= kSlots) mbar_wait(&empty[n % kSlots], (n / kSlots - 1) & 1);
    mbar_wait(&full[n % kSlots], (n / kSlots) & 1);
    return base + (n % kSlots) * kStride;
  }
  __device__ void release(uint32_t n, int lane) const {
    __syncwarp();
    if (lane == 0) mbar_arrive(&empty[n % kSlots]);
  }
};

// Tile order, mma: 16 rows x (kBytes / 32) k in `slot`, activations x (bf16 pairs, k in natural order) in shared
// memory. Result: lanes with lane % 4 == 0 hold row 2g in .x and 2g + 1 in .y, g = lane / 4.
template <int kBytes, int kPad>
__device__ __forceinline__ float2 tile_mma(const char* slot, const uint32_t* x, int lane) {
  constexpr int kHalf = kBytes / 128;  // k pairs per half
  const int g = lane / 4, t = lane % 4;
  const char* a = slot + (t >> 1) * (kBytes / 2 + kPad) + (t & 1) * 64 + g * 8;
  const uint32_t* b = x + (t >> 1) * kHalf + (t & 1);
  float acc[4][4] = {};
#pragma unroll 2
  for (int s = 0; s < kHalf / 4; s += 4) {
    uint2 lo[4], hi[4], x2[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // all loads of four steps first: one latency, not four
      lo[i] = *reinterpret_cast<const uint2*>(a + (s + i) * 256),
      hi[i] = *reinterpret_cast<const uint2*>(a + (s + i) * 256 + 128);
      x2[i] = {b[4 * (s + i)], b[4 * (s + i) + 2]};
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) mma_16816(acc[i], lo[i].x, lo[i].y, hi[i].x, hi[i].y, x2[i].x, x2[i].y);
  }
  return {(acc[0][0] + acc[1][0]) + (acc[2][0] + acc[3][0]), (acc[0][2] + acc[1][2]) + (acc[2][2] + acc[3][2])};
}

}  // namespace gates
