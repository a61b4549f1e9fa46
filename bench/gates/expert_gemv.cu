// SPDX-License-Identifier: Apache-2.0
// Purpose: gate 2, the expert product of Qwen3-30B-A3B at batch 1 (d 2048, f 768, 128 experts, top 8, 48 layers) with
// real arithmetic, in three record orders: the project's tiles, mma fragments, plain rows.
// Invariant: every launch reads 48 x 8 experts drawn afresh out of 58 GB, and the phases do not depend on each other,
// so the figure is the rate at which an order can be consumed and nothing else (dependencies: decode_skeleton.cu).
#include "common.cuh"

namespace gates {

constexpr int kLayers = 48, kExperts = 128, kTop = 8, kD = 2048, kF = 768;
constexpr size_t kMatrix = size_t{kF} * kD * 2;  // bytes of gate, of up, of down
constexpr size_t kRecord = 3 * kMatrix;          // gate | up | down
constexpr int kBlocks = 128, kSlot = 16384, kDownChunk = 12288, kSlots = 12;

enum class Order { kTile, kFragment, kRow };

// Position of word (row, k pair) within a matrix of width `cols`, in 32-bit words.
__host__ __device__ inline size_t word_index(Order order, int cols, int row, int kp) {
  const size_t tile = static_cast<size_t>(row / 16) * 16 * (cols / 2);
  const int r = row % 16;
  if (order == Order::kTile) return tile + kp * 16 + r;
  if (order == Order::kRow) return tile + static_cast<size_t>(r) * (cols / 2) + kp;
  const int lane = (r % 8) * 4 + kp % 4, reg = (r / 8) + 2 * ((kp / 4) % 2);  // m16n8k16 A fragment
  return tile + (kp / 8) * 128 + lane * 4 + reg;
}

__host__ __device__ inline uint64_t weight_id(int expert, int matrix, int row, int k) {
  return (static_cast<uint64_t>(expert) * 3 + matrix) * (kF * kD) +
         static_cast<uint64_t>(row) * (matrix == 2 ? kF : kD) + k;
}
__host__ __device__ inline float weight_scale(int matrix) { return matrix == 2 ? 0.0625f : 0.04f; }

__global__ void fill(uint32_t* w, Order order, uint64_t seed) {
  uint32_t* matrix = w + static_cast<size_t>(blockIdx.x) * (kMatrix / 4);
  const int m = blockIdx.x % 3, cols = m == 2 ? kF : kD;
  for (int i = threadIdx.x; i < static_cast<int>(kMatrix / 4); i += blockDim.x) {
    const int row = i / (cols / 2), kp = i % (cols / 2);
    const uint64_t id = weight_id(blockIdx.x / 3, m, row, 2 * kp) + seed;
    const float s = weight_scale(m);
    matrix[word_index(order, cols, row, kp)] =
        pack_bf16(__bfloat162float(hash_weight(id, s)), __bfloat162float(hash_weight(id + 1, s)));
  }
}

struct Args {
  const char* records;   // [kLayers * kExperts][kRecord]
  const int* selected;   // [kLayers][kTop]
  const uint32_t* x;     // [kLayers][kD / 2] bf16 pairs
  const uint32_t* h_in;  // [kLayers][kTop][kF / 2] bf16 pairs
  const float* weight;   // [kLayers][kTop]
  float* h_out;          // [kLayers][kTop][kF]
  float* y;              // [kLayers][kD]
  int window;            // chunks of the ring in flight
};

// kMma: tiles or fragments through mma; else fp32 FMA on tiles or rows. kPad: see Ring.
template <Order kOrder, bool kMma, int kPad>
struct Consume {
  // Partial sums of one chunk to red[16] (tiles, fragments) or whole row sums of its rows to red[0..] (rows).
  template <int kBytes, int kCols>
  static __device__ void chunk(const char* slot, const uint32_t* x, float* red, int lane) {
    const int g = lane / 4, t = lane % 4;
    if constexpr (kOrder == Order::kTile && kMma) {
      const float2 v = tile_mma<kBytes, kPad>(slot, x, lane);
      if (t == 0) *reinterpret_cast<float2*>(red + 2 * g) = v;
    } else if constexpr (kOrder == Order::kFragment) {
      float acc[4][4] = {};
#pragma unroll 8
      for (int s = 0; s < kBytes / 512; ++s) {
        const uint4 a = *reinterpret_cast<const uint4*>(slot + s * 512 + lane * 16);
        mma_16816(acc[s & 3], a.x, a.y, a.z, a.w, x[8 * s + t], x[8 * s + t + 4]);
      }
      if (t == 0) {
        red[g] = (acc[0][0] + acc[1][0]) + (acc[2][0] + acc[3][0]);
        red[g + 8] = (acc[0][2] + acc[1][2]) + (acc[2][2] + acc[3][2]);
      }
    } else if constexpr (kOrder == Order::kTile) {
      float acc[4] = {};
#pragma unroll 8
      for (int s = 0; s < kBytes / 512; ++s) {
        const uint4 a = *reinterpret_cast<const uint4*>(slot + s * 512 + lane * 16);
        const uint32_t b = x[8 * s + g];
        const float b0 = bf16_lo(b), b1 = bf16_hi(b);
        acc[0] += bf16_lo(a.x) * b0 + bf16_hi(a.x) * b1, acc[1] += bf16_lo(a.y) * b0 + bf16_hi(a.y) * b1;
        acc[2] += bf16_lo(a.z) * b0 + bf16_hi(a.z) * b1, acc[3] += bf16_lo(a.w) * b0 + bf16_hi(a.w) * b1;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int i = 4; i < 32; i *= 2) acc[j] += __shfl_xor_sync(~0u, acc[j], i);
      }
      if (g == 0) *reinterpret_cast<float4*>(red + 4 * t) = make_float4(acc[0], acc[1], acc[2], acc[3]);
    } else {
      constexpr int kRows = kBytes / (kCols * 2);
#pragma unroll 2
      for (int r = 0; r < kRows; ++r) {
        float acc = 0;
#pragma unroll
        for (int s = 0; s < kCols / 256; ++s) {
          const uint4 a = *reinterpret_cast<const uint4*>(slot + r * kCols * 2 + s * 512 + lane * 16);
          const uint4 b = *reinterpret_cast<const uint4*>(x + s * 128 + lane * 4);
          acc += bf16_lo(a.x) * bf16_lo(b.x) + bf16_hi(a.x) * bf16_hi(b.x) + bf16_lo(a.y) * bf16_lo(b.y) +
                 bf16_hi(a.y) * bf16_hi(b.y) + bf16_lo(a.z) * bf16_lo(b.z) + bf16_hi(a.z) * bf16_hi(b.z) +
                 bf16_lo(a.w) * bf16_lo(b.w) + bf16_hi(a.w) * bf16_hi(b.w);
        }
        acc = warp_sum(acc);
        if (lane == 0) red[r] = acc;
      }
    }
  }
};

// Row r of a tile out of the partial sums of its kParts chunks.
template <Order kOrder, int kParts>
__device__ float tile_row(const float (*red)[16], int r) {
  if constexpr (kOrder == Order::kRow) return red[r / (16 / kParts)][r % (16 / kParts)];
  float sum = red[0][r];
#pragma unroll
  for (int p = 1; p < kParts; ++p) sum += red[p][r];
  return sum;
}

template <Order kOrder, bool kMma, int kPad>
__global__ void __launch_bounds__(288) expert_ring(Args a) {
  using C = Consume<kOrder, kMma, kPad>;
  extern __shared__ __align__(128) char buffer[];
  using R = Ring<kSlot, kSlots, kPad>;
  __shared__ uint64_t full[kSlots], empty[kSlots];
  __shared__ __align__(16) uint32_t xs[kD / 2], hs[kTop * kF / 2];
  __shared__ __align__(16) float red[2][24][16];
  R ring{buffer, full, empty};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, b = blockIdx.x;
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  auto record = [&](int l, int e) {
    return a.records + static_cast<size_t>(l * kExperts + a.selected[l * kTop + e]) * kRecord;
  };
  if (warp == 8) {
    if (lane != 0) return;
    const uint64_t policy = evict_first_policy();
    uint32_t n = 0;
    for (int l = 0; l < kLayers; ++l) {
      for (int j = 0; j < 3; ++j) {
        const int pair = j * kBlocks + b;
        const char* tile = record(l, pair / 48) + static_cast<size_t>(pair % 48) * 65536;
        for (int c = 0; c < 8; ++c) ring.push(n++, tile + (c / 4) * kMatrix + (c % 4) * kSlot, kSlot, policy, a.window);
      }
      for (int c = 0; c < 16; ++c)
        ring.push(n++, record(l, c / 2) + 2 * kMatrix + b * 24576 + (c % 2) * kDownChunk, kDownChunk, policy, a.window);
    }
    return;
  }
  uint32_t n = 0;
  for (int l = 0; l < kLayers; ++l) {
    for (int i = threadIdx.x; i < kD / 2; i += 256) xs[i] = a.x[l * kD / 2 + i];
    for (int i = threadIdx.x; i < kTop * kF / 2; i += 256) hs[i] = a.h_in[l * kTop * kF / 2 + i];
    asm volatile("bar.sync 1, 256;" ::: "memory");
    for (int c = warp; c < 24; c += 8) {
      const uint32_t* x = xs + (kOrder == Order::kRow ? 0 : (c % 4) * (kD / 8));
      C::template chunk<kSlot, kD>(ring.wait(n + c), x, red[0][c], lane);
      ring.release(n + c, lane);
    }
    n += 24;
    for (int c = warp; c < 16; c += 8) {
      const uint32_t* h = hs + (c / 2) * (kF / 2) + (kOrder == Order::kRow ? 0 : (c % 2) * (kF / 4));
      C::template chunk<kDownChunk, kF>(ring.wait(n + c), h, red[1][c], lane);
      ring.release(n + c, lane);
    }
    n += 16;
    asm volatile("bar.sync 1, 256;" ::: "memory");
    if (threadIdx.x < 48) {
      const int j = threadIdx.x / 16, r = threadIdx.x % 16, pair = j * kBlocks + b;
      const float gate = tile_row<kOrder, 4>(&red[0][j * 8], r), up = tile_row<kOrder, 4>(&red[0][j * 8 + 4], r);
      a.h_out[(l * kTop + pair / 48) * kF + pair % 48 * 16 + r] = gate / (1 + __expf(-gate)) * up;
    } else if (threadIdx.x < 64) {
      float sum = 0;
      for (int e = 0; e < kTop; ++e)
        sum += a.weight[l * kTop + e] * tile_row<kOrder, 2>(&red[1][2 * e], threadIdx.x - 48);
      a.y[l * kD + b * 16 + threadIdx.x - 48] = sum;
    }
  }
}

// The third structure: no ring, one block per pair of tiles (then per row tile of down), weights straight to registers.
template <Order kOrder, bool kMma>
__global__ void __launch_bounds__(256) expert_loads(Args a) {
  using C = Consume<kOrder, kMma, 0>;
  __shared__ __align__(16) float red[16][16];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  auto record = [&](int l, int e) {
    return a.records + static_cast<size_t>(l * kExperts + a.selected[l * kTop + e]) * kRecord;
  };
  for (int i = blockIdx.x; i < kLayers * 512; i += gridDim.x) {
    const int l = i / 512, j = i % 512;
    if (j < 384) {
      const char* chunk =
          record(l, j / 48) + (warp / 4) * kMatrix + static_cast<size_t>(j % 48) * 65536 + warp % 4 * kSlot;
      C::template chunk<kSlot, kD>(chunk, a.x + l * kD / 2 + (warp % 4) * (kD / 8), red[warp], lane);
    } else {
      for (int c = warp; c < 16; c += 8)
        C::template chunk<kDownChunk, kF>(record(l, c / 2) + 2 * kMatrix + (j - 384) * 24576 + (c % 2) * kDownChunk,
                                          a.h_in + (l * kTop + c / 2) * kF / 2 + (c % 2) * (kF / 4), red[c], lane);
    }
    __syncthreads();
    const int r = threadIdx.x;
    if (r < 16 && j < 384) {
      const float gate = tile_row<kOrder, 4>(&red[0], r), up = tile_row<kOrder, 4>(&red[4], r);
      a.h_out[(l * kTop + j / 48) * kF + j % 48 * 16 + r] = gate / (1 + __expf(-gate)) * up;
    } else if (r < 16) {
      float sum = 0;
      for (int e = 0; e < kTop; ++e) sum += a.weight[l * kTop + e] * tile_row<kOrder, 2>(&red[2 * e], r);
      a.y[l * kD + (j - 384) * 16 + r] = sum;
    }
    __syncthreads();
  }
}

}  // namespace gates

#include "expert_gemv_main.inl"
