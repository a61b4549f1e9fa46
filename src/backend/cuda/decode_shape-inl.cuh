// SPDX-License-Identifier: Apache-2.0
// How decode_step divides a model's shape over the blocks: who owns which rows, where packets lie, what shared memory
// holds, and the thread that keeps the weights coming.
// Invariant: the producer pushes parts in the order in which consumers number them; both take their counts from here.
#pragma once
#include "backend/cuda/decode_step.h"
#include "backend/cuda/sm90-inl.cuh"
#include "core/expert_table.h"
#include "core/kv_view.h"

namespace colibri::cuda {

// A part is what one warp takes from the ring at a time: 16 outputs by 256 inputs, or one head's keys or values of a
// block of the cache.
constexpr int kBlocks = 128, kCopies = 4, kPad = 32, kPartBytes = 8192, kPartCols = 256, kPartWords = kPartCols / 2;
constexpr int kWarps = 16, kThreads = 32 * kWarps, kProducers = 2, kRouteWarps = 8;
// Parts in flight per block. More only lengthen the queue in which packets wait; what attention's exchanges run beside
// has time.
constexpr int kQkvWindow = 4, kDenseWindow = 2, kUpWindow = 6, kDownWindow = 4;
static_assert((kQkvWindow | kDenseWindow | kUpWindow | kDownWindow) % kProducers == 0);  // a producer waits for its own

// Qwen3-30B-A3B. A block owns 16 rows of the residual stream, two tiles of q and half of the inputs of one tile of k
// or v, one expert's logit, and one of kSplits slices of the cache of one key head.
template <int kRowCount>
struct DecodeShape {
  static constexpr int kRows = kRowCount;
  static constexpr int kD = 2048, kHeads = 32, kKvHeads = 4, kHeadDim = 128, kExperts = 128, kTop = 8, kF = 768;
  static constexpr int kQ = kHeads * kHeadDim, kKv = kKvHeads * kHeadDim, kGroup = kHeads / kKvHeads;
  static constexpr int kSplits = kBlocks / kKvHeads;
  static_assert(kD == 16 * kBlocks && kQ == 32 * kBlocks && kKv * 4 == 16 * kBlocks && kExperts == kBlocks);
  static_assert(kD * 4 == kPartBytes && kQ * 4 == 2 * kPartBytes);  // norms and rows of the router are parts too
  static_assert(kHeadDim * kBlockTokens * 4 == kPartBytes && kGroup == 8 && kSplits == 32 && kTop == 8);

  static constexpr int kTeams = kWarps / kGroup;
  // At least kWarps and even: between two syncs a warp takes parts at even distances of at most kWarps, so that a part
  // that it waits for is of the producer whose earlier ones it has had, and a parity of one bit tells them apart.
  static constexpr int kSlots = kRows == 1 ? 24 : kRows == 2 ? 22 : 16;
  static constexpr int kRingBytes = Ring<kPartBytes, kSlots, kPad>::kBytes;
  static constexpr int kXParts = kD / kPartCols, kOParts = kQ / kPartCols, kDParts = kF / kPartCols;
  static constexpr int kQkvParts = 2 * kXParts + kXParts / 2;
  static __device__ int head_tiles(int vocab, int b) { return ((vocab + 15) / 16 - b + kBlocks - 1) / kBlocks; }
  // Tiles of a round, one a warp; an even number, the last one then twice.
  static __device__ int head_width(int tiles) { return min(kWarps, (tiles + 1) & ~1); }
  // Blocks share k and v of their own key head: 2 j and 2 j + 1 of its 32 blocks have tile j, which are 8 of k, 8 of v.
  static __device__ int kv_tile(int b) { return b % 32 / 16 * (kKv / 16) + b / kSplits * 8 + b % 16 / 2; }
  static constexpr int kTiles = kF / 16;                  // of gate, and of up, of one expert
  static constexpr int kPairs = kTop * kTiles / kBlocks;  // of gate and up tiles, a block's at one row
  static constexpr int kUnion = kTop * kRows;             // experts of a step at most
  static constexpr size_t kTileBytes = size_t{kD} * 32;
  static constexpr size_t kUpAt = matrix_bytes(kF, kD), kDownAt = 2 * kUpAt;  // as ExpertShape has them
  static_assert(kUpAt % kRecordAlignment == 0);

  // Packets of 16 bytes: a block's 16 rows of x or y 4, of q k v 12, 32 values of a 6, a tile of h 3, a slice's part
  // of 32 values of a and its softmax 9.
  static constexpr int kRowPackets = kBlocks * 4, kQkvPackets = 12, kAPackets = kBlocks * 6;
  static constexpr int kHPackets = kTop * kTiles * 3, kPartPackets = 9, kUnitPackets = kSplits * kPartPackets;
  static constexpr size_t kX = 16, kY = kX + kRows * kCopies * kRowPackets;
  static constexpr size_t kQkvAt = kY + kRows * kCopies * kRowPackets;
  static constexpr size_t kPart = kQkvAt + kRows * kBlocks * kQkvPackets;
  static constexpr size_t kA = kPart + kRows * kBlocks * kUnitPackets;
  static constexpr size_t kH = kA + kRows * kCopies * kAPackets;
  static constexpr size_t kLogit = kH + kRows * kCopies * kHPackets;  // of 8 bytes
  static constexpr size_t kBest = kLogit + kRows * kCopies * kBlocks / 2;
  static constexpr size_t kWorkspace = (kBest + kRows * kBlocks) * 16;  // the first word is the epoch
};

// The blocks of the cache that a split of the positions before this one reads: as many for each, so that the sums of a
// row depend on its position alone. The last split also has the new token.
struct Slice {
  int first, count;
  template <class S>
  static __device__ Slice of(int position, int split) {
    const int blocks = (position + kBlockTokens - 1) / kBlockTokens, each = (blocks + S::kSplits - 1) / S::kSplits;
    const int first = split * each;
    return {first, max(0, min(each, blocks - first))};
  }
};

template <class S>
struct Shared {
  DecodeModel model;  // copies: a miss in the constant cache queues behind the stream at the memory, 2.5 us
  DecodeStep step;
  DecodeLayer layer[2];  // l at l % 2; that of l + 1 arrives while l is computed
  uint64_t full[S::kSlots], empty[S::kSlots], routed;
  alignas(16) uint32_t act[S::kRows][padded(S::kTop * S::kF / 2)];  // bf16, of the phase in hand, word w at padded(w)
  alignas(16) float red[2 * S::kPairs * S::kXParts][S::kRows][16];
  alignas(16) float team[S::kRows][S::kTeams - 1][S::kGroup][S::kHeadDim + 4];  // values, maximum, sum, of all but one
  alignas(16) float cosine[S::kRows][S::kHeadDim / 2], sine[S::kRows][S::kHeadDim / 2];
  alignas(16) float logit[S::kRows][S::kExperts];
  float residual[S::kRows][16];  // this block's rows
  float sumsq[S::kRows][16], logit_x[S::kRows][16], logit_a[S::kRows][S::kAPackets / 32];
  uint32_t a[S::kRows][16];                                    // this block's 32 values
  alignas(16) float q_norm[S::kHeadDim], k_norm[S::kHeadDim];  // of the layer
  int position[S::kRows], block[S::kRows],
      first_block[S::kRows];  // of the cache: the position's, and the slice's first
  uint32_t epoch;
  // What the router chose: the union of the rows' experts by id, and each row's rank of them (-1: not chosen).
  const std::byte* record[S::kUnion];
  int n_experts, rank[S::kRows][S::kUnion];
  float chosen[S::kRows][S::kTop];  // logits before 1 / rms, best first
  uint32_t any[kRouteWarps];
};

// Producer warp `who` of kProducers pushes every kProducers-th part of this block in the order of use; it waits for
// nothing but free slots, the window and the router.
template <class S, class R>
__device__ void produce(int who, R& ring, Shared<S>& sh) {
  const uint64_t policy = evict_first_policy();
  const int b = blockIdx.x, kv_head = b / S::kSplits, split = b % S::kSplits, layers = sh.model.n_layers;
  const std::ptrdiff_t kv_stride = sh.model.kv_block_stride;
  uint32_t n = 0;
  auto stamp = [&](int l, int i) {
    if (sh.step.stamps && who == 0) {
      uint64_t now;
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
      sh.step.stamps[(b * (layers + 1) + l) * kDecodeStamps + i] = now;
    }
  };
  auto segment = [&](int count, int window, auto source) {
    for (int c = (who + n) % kProducers; c < count; c += kProducers)
      ring.push(n + c, reinterpret_cast<const char*>(source(c)), kPartBytes, policy, window);
    n += count;
  };
#pragma unroll 1
  for (int l = 0; l < layers; ++l) {
    const DecodeLayer& layer = sh.layer[l & 1];
    const std::byte* mine = layer.qkv + b * 2 * S::kTileBytes;
    const std::byte* half = layer.qkv + (2 * kBlocks + S::kv_tile(b)) * S::kTileBytes + b % 2 * (S::kTileBytes / 2);
    const float* router = layer.router_rows + b * (S::kD + S::kQ);
    segment(2, kQkvWindow, [&](int c) { return c ? router : layer.attn_norm; });
    segment(S::kQkvParts, kQkvWindow, [&](int c) {
      return c < 2 * S::kXParts ? mine + c * kPartBytes : half + (c - 2 * S::kXParts) * kPartBytes;
    });
    stamp(l, 16);
#pragma unroll 1
    for (int r = 0; r < S::kRows; ++r) {
      const Slice slice = Slice::of<S>(sh.position[r], split);
      const float* kv = layer.kv + kv_head * (kPartBytes / 4);
      segment(2 * slice.count, kDenseWindow, [&](int c) {
        const std::int32_t block = c < 2 ? sh.first_block[r] : sh.step.tables[r][slice.first + c / 2];
        return kv + block * kv_stride + c % 2 * (S::kKvHeads * (kPartBytes / 4));
      });
    }
    segment(2, kDenseWindow, [&](int c) { return router + S::kD + c * (kPartBytes / 4); });
    const std::byte* o = layer.o + b * (2 * S::kTileBytes);
    segment(S::kOParts, kDenseWindow, [&](int c) { return o + c * kPartBytes; });
    segment(1, kDenseWindow, [&](int) { return layer.ffn_norm; });

    stamp(l, 17);
    mbar_wait(&sh.routed, l & 1, 2);
    stamp(l, 18);
    const int experts = sh.n_experts, pairs = (experts * S::kTiles - b + kBlocks - 1) / kBlocks;
    segment(pairs * 2 * S::kXParts, kUpWindow, [&](int c) {
      const int pair = c / (2 * S::kXParts) * kBlocks + b;
      return sh.record[pair / S::kTiles] + (c / S::kXParts % 2 ? S::kUpAt : 0) + pair % S::kTiles * S::kTileBytes +
             c % S::kXParts * kPartBytes;
    });
    stamp(l, 19);
    segment(experts * S::kDParts, kDownWindow, [&](int c) {
      return sh.record[c / S::kDParts] + S::kDownAt + (b * S::kDParts + c % S::kDParts) * kPartBytes;
    });
    stamp(l, 20);
  }
  segment(1, kDenseWindow, [&](int) { return sh.layer[layers & 1].attn_norm; });
  const int tiles = S::head_tiles(sh.model.vocab, b);
#pragma unroll 1
  for (int at = 0; at < tiles; at += kWarps) {
    const std::byte* first = sh.model.head + (b + at * kBlocks) * S::kTileBytes;
    const int width = S::head_width(tiles - at);
    segment(width * S::kXParts, S::kSlots, [&](int c) {
      return first + min(c % width, tiles - at - 1) * (kBlocks * S::kTileBytes) + c / width * kPartBytes;
    });
  }
}

}  // namespace colibri::cuda
