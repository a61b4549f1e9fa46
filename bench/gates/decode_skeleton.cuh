// SPDX-License-Identifier: Apache-2.0
// Purpose: gate 3 in context: one persistent kernel that decodes one token of Qwen3-30B-A3B's shape with real products,
// router and dependencies (attention is a stub over the new position), to price the ways of handing data between
// phases. Invariant: block b owns rows 16 b .. 16 b + 15 of the residual stream; every other vector travels through
// packets in global memory, and a buffer is rewritten only after an all-to-all exchange has proved that all have read
// it.
#pragma once
#include "common.cuh"

namespace gates {

constexpr int kLayers = 48, kExperts = 128, kTop = 8, kD = 2048, kQ = 4096, kQkv = 5120, kF = 768, kVocab = 151936;
constexpr int kBlocks = 128, kWarps = 16, kThreads = kWarps * 32, kHeadTiles = kVocab / 16, kMaxCopies = 4, kPad = 32;

enum class Sync { kCounter, kPacket };
enum class Route { kOwnPhase, kEarly };  // kEarly: logits from attention's output, beside the O product

// kDiv stands for the weight format by its bytes: 1 bf16, 2 fp8, 4 int4; the arithmetic stays bf16 on K / kDiv.
// A warp's unit of work is a part: 16 rows by a slot's worth of K.
template <int kDiv>
struct Shape {
  static constexpr int kKx = kD / kDiv, kKo = kQ / kDiv, kKf = kF / kDiv;
  static constexpr int kSlot = kDiv == 1 ? 8192 : 4096, kSlots = kDiv == 1 ? 24 : 48;
  // Producer warps: one alone issues a part in about 590 clocks, and the stream asks for one in 230 to 460.
  static constexpr int kProducers = kDiv == 1 ? 2 : 4;
  static constexpr int kXTile = kKx * 32, kOTile = kKo * 32, kDTile = kKf * 32;  // bytes of 16 rows
  static constexpr int kXParts = kXTile / kSlot, kOParts = kOTile / kSlot, kDParts = 3, kDPart = kDTile / kDParts;
  // Parts of block b per phase. QKV: row tiles 2b, 2b + 1 of q, and half the K of one tile of k and v.
  __host__ __device__ static constexpr int parts(int phase) {
    return phase % 2 == 0 ? (phase ? 6 * kXParts : 2 * kXParts + kXParts / 2) : (phase < 2 ? kOParts : kTop * kDParts);
  }
  static constexpr size_t kMatrix = size_t{kF} * kKx * 2, kRecord = 3 * kMatrix;
  static constexpr size_t kQkvBytes = size_t{kQkv} * kKx * 2, kOBytes = size_t{kD} * kKo * 2;
  static constexpr size_t kHeadBytes = size_t{kVocab} * kKx * 2, kRouterBytes = size_t{kExperts} * kD * 2;
  static constexpr double kTokenBytes =
      kLayers * (double(kQkvBytes) + kOBytes + kRouterBytes + kTop * double(kRecord)) + kHeadBytes;
};

struct Args {
  const char *qkv, *o, *experts, *head;  // [layers][..] in tile order
  const uint32_t* router;                // [layers][kExperts][kD / 2] bf16 pairs, plain rows
  const float* router_o;                 // [layers][kExperts][kQ], router times O, for Route::kEarly
  const float* x0;                       // [kD]
  float* logits;                         // [kVocab]
  int* picked;                           // [layers][kTop]
  // Packets; all but qkv in kCopies copies, so that 128 readers spread over more lines. Per block: x and y (residual
  // before attention and before the experts) 3, qkv 17, a 6, h 9, logit 1.
  uint4 *x, *y, *qkv_out, *a, *h;
  uint2* logit;
  uint32_t* counter;      // of Sync::kCounter
  uint32_t counter_base;  // its value at the start
  uint32_t epoch;         // this launch uses epoch + 1 .. epoch + layers + 1
  int layers;
  int dense_window, up_window, down_window;  // parts in flight per block
  const int* guess;                          // [layers][kTop], experts that a predictor would name before the router
  int prefetch;                              // bytes per block of the guessed experts' gate and up to bring into L2
  int backoff;                               // ns between two polls of a packet that is not there yet
  int pace;                                  // clocks between two prefetches of 8 KiB
  uint64_t* stamps;                          // [layers + 1][16] ns, by block 0's first thread, or null
};

template <int kDiv>
struct Shared {
  Args args;  // a copy: a miss in the constant cache queues behind the stream at the memory, 2.5 us
  uint64_t full[Shape<kDiv>::kSlots], empty[Shape<kDiv>::kSlots], routed;
  alignas(16) uint32_t act[kTop * kF / 2 * 9 / 8];  // the bf16 input of the phase in hand, word w at padded(w)
  alignas(16) float red[48][16], logit[kExperts], sumsq[kBlocks];
  float part[kWarps], qs[128], ks[2][128], vs[2][32], sel_logit[kTop];
  int sel[2][kTop];
};

// Word `lane` of a warp becomes kPackets packets at place `at` of every copy.
template <int kPackets, int kCopies>
__device__ __forceinline__ void publish(uint4* base, int at, int places, uint32_t word, uint32_t epoch, int lane) {
  const int p = lane % kPackets, copy = lane / kPackets;
  const uint32_t x = __shfl_sync(~0u, word, (3 * p) & 31), y = __shfl_sync(~0u, word, (3 * p + 1) & 31),
                 z = __shfl_sync(~0u, word, (3 * p + 2) & 31);
  if (copy < kCopies) store_packet(base + (copy * places + at) * kPackets + p, x, y, z, epoch);
}

// Word w of the result (in lane w) is the bf16 pair of lanes 2w and 2w + 1.
__device__ __forceinline__ uint32_t pack_pairs(float f, int lane) {
  return pack_bf16(__shfl_sync(~0u, f, lane * 2 & 31), __shfl_sync(~0u, f, (lane * 2 + 1) & 31));
}

__device__ __forceinline__ uint4 poll(const uint4* p, uint32_t epoch, int backoff) {
  uint4 v = load_packet(p);
  while (v.w != epoch) {
    if (backoff) __nanosleep(backoff);
    v = load_packet(p);
  }
  return v;
}

// use(packet index, packet) for kCount packets over the block's threads.
template <int kCount, class F>
__device__ __forceinline__ void gather(const uint4* base, uint32_t epoch, int tid, int backoff, F use) {
  constexpr int kEach = (kCount + kThreads - 1) / kThreads;
  uint4 v[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (i * kThreads + tid < kCount) v[i] = load_packet(base + i * kThreads + tid);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int p = i * kThreads + tid;
    if (p < kCount) {
      if (v[i].w != epoch) v[i] = poll(base + p, epoch, backoff);
      use(p, v[i]);
    }
  }
}

// Lanes 0..15 and 16..31 each sum kCount parts of their row: `first` and `second` name their first part.
template <int kCount>
__device__ __forceinline__ float rows(const float (*red)[16], int first, int second, int lane) {
  const float* p = &red[lane < 16 ? first : second][lane & 15];
  float sum = p[0];
#pragma unroll
  for (int i = 1; i < kCount; ++i) sum += p[i * 16];
  return sum;
}

__device__ __forceinline__ bool mbar_ready(uint64_t* bar, uint32_t parity) {
  uint32_t ok;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(ok)
               : "r"(smem(bar)), "r"(parity)
               : "memory");
  return ok;
}

// Producer warp `who`: every kProducers-th part of this block in the order of use; it waits for nothing but free slots,
// the window and the router.
template <int kDiv, class R>
__device__ void produce(int who, R& ring, Shared<kDiv>& sh) {
  using S = Shape<kDiv>;
  const Args& a = sh.args;
  const uint64_t first = evict_first_policy();
  const volatile int(*sel)[kTop] = sh.sel;
  const int b = blockIdx.x, layers = a.layers, dense_window = a.dense_window;
  constexpr int kO = S::parts(0), kUp = kO + S::parts(1), kDown = kUp + S::parts(2), kAll = kDown + S::parts(3);
  uint32_t n = who;
  int i = who;
#pragma unroll 1
  for (int l = 0; l < layers; ++l, i -= kAll) {
    const char *qkv = a.qkv + l * S::kQkvBytes, *o = a.o + l * S::kOBytes + static_cast<size_t>(b) * S::kOTile;
    const char* qkv_mine = qkv + static_cast<size_t>(b) * 2 * S::kXTile;
    const char* qkv_half = qkv + static_cast<size_t>(512 + b) * (S::kXTile / 2);
#pragma unroll 1
    for (; i < kUp; i += S::kProducers, n += S::kProducers) {
      const char* src = i >= kO              ? o + (i - kO) * S::kSlot
                        : i < 2 * S::kXParts ? qkv_mine + i * S::kSlot
                                             : qkv_half + (i - 2 * S::kXParts) * S::kSlot;
      ring.push(n, src, S::kSlot, first, dense_window);
    }
    const char* layer = a.experts + static_cast<size_t>(l) * kExperts * S::kRecord;
    // While the router decides, the memory has little else to do: bring guessed experts to L2, at a pace that leaves
    // the packets of the other warps room.
    const int each = who == 0 ? a.prefetch / 6 : 0;
#pragma unroll 1
    for (int m = 0; m < 6 && each; ++m) {
      const int pair = m / 2 * kBlocks + b;
      const char* tile = layer + a.guess[l * kTop + pair / 48] * S::kRecord + m % 2 * S::kMatrix +
                         static_cast<size_t>(pair % 48) * S::kXTile;
#pragma unroll 1
      for (int at = 0; at < each && !mbar_ready(&sh.routed, l & 1); at += 8192) {
        const long long until = clock64() + a.pace;
        bulk_prefetch(tile + at, 8192, evict_last_policy());
        while (clock64() < until) {
        }
      }
    }
    mbar_wait(&sh.routed, l & 1);
#pragma unroll 1
    for (; i < kDown; i += S::kProducers, n += S::kProducers) {
      const int j = i - kUp, pair = j / (2 * S::kXParts) * kBlocks + b;
      ring.push(n,
                layer + sel[l & 1][pair / 48] * S::kRecord + j / S::kXParts % 2 * S::kMatrix +
                    static_cast<size_t>(pair % 48) * S::kXTile + j % S::kXParts * S::kSlot,
                S::kSlot, first, a.up_window);
    }
#pragma unroll 1
    for (; i < kAll; i += S::kProducers, n += S::kProducers) {
      const int d = i - kDown;
      ring.push(n,
                layer + sel[l & 1][d / S::kDParts] * S::kRecord + 2 * S::kMatrix + static_cast<size_t>(b) * S::kDTile +
                    d % S::kDParts * S::kDPart,
                S::kDPart, first, a.down_window);
    }
  }
  const int parts = (kHeadTiles - b + kBlocks - 1) / kBlocks * S::kXParts;
#pragma unroll 1
  for (; i < parts; i += S::kProducers, n += S::kProducers)
    ring.push(n, a.head + static_cast<size_t>(b + i / S::kXParts * kBlocks) * S::kXTile + i % S::kXParts * S::kSlot,
              S::kSlot, first);
}

}  // namespace gates
