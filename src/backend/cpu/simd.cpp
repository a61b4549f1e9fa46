// SPDX-License-Identifier: Apache-2.0
// The kernels of simd.h, compiled once per instruction set by Highway and chosen at run time.
// Invariant: 16 floats are the unit everywhere, held in as many vectors as the instruction set needs (one on AVX-512,
// two on AVX2, four on NEON), so no sum's order depends on the vector's width.
//
// Length: Highway compiles the whole file once per instruction set, and its headers cost more than the kernels.
#include "backend/cpu/simd.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

// SSSE3 and SSE4 have no fused multiply-add, and machines without AVX2 no use for a fast backend.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/simd.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/cache_control.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

// Loops over registers must vanish at every optimisation level.
#if defined(__clang__)
#define COLIBRI_UNROLL _Pragma("clang loop unroll(full)")
#else
#define COLIBRI_UNROLL _Pragma("GCC unroll 64")
#endif

HWY_BEFORE_NAMESPACE();
namespace colibri::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kLanes>;
using V = hn::Vec<D>;
using U = hn::Rebind<std::uint32_t, D>;

constexpr int kWidth = static_cast<int>(hn::MaxLanes(D()));  // lanes of a vector
constexpr int kVectors = kLanes / kWidth;                    // vectors of 16 floats
constexpr int kRegisters = HWY_TARGET == HWY_AVX2 ? 16 : 32;

/// a * b + c, rounded once, whatever the processor.
HWY_INLINE V fma(V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  const D d;
  HWY_ALIGN float lanes[3][kWidth];
  hn::Store(a, d, lanes[0]);
  hn::Store(b, d, lanes[1]);
  hn::Store(c, d, lanes[2]);
  for (int i = 0; i < kWidth; ++i) lanes[2][i] = std::fma(lanes[0][i], lanes[1][i], lanes[2][i]);
  return hn::Load(d, lanes[2]);
#endif
}

/// 16 floats.
struct F16 {
  V v[kVectors];
};

HWY_INLINE F16 set(float x) {
  F16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) r.v[i] = hn::Set(D(), x);
  return r;
}
HWY_INLINE F16 load(const float* p) {
  F16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) r.v[i] = hn::LoadU(D(), p + i * kWidth);
  return r;
}
HWY_INLINE void store(const F16& x, float* p) {
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) hn::StoreU(x.v[i], D(), p + i * kWidth);
}
/// The first n floats at p; the others 0. n <= 16.
HWY_INLINE F16 load_n(const float* p, int n) {
  if (n == kLanes) return load(p);
  float lanes[kLanes] = {};
  std::memcpy(lanes, p, sizeof(float) * static_cast<std::size_t>(n));
  return load(lanes);
}
HWY_INLINE void store_n(const F16& x, float* p, int n) {
  if (n == kLanes) return store(x, p);
  float lanes[kLanes];
  store(x, lanes);
  std::memcpy(p, lanes, sizeof(float) * static_cast<std::size_t>(n));
}
template <class F>
HWY_INLINE F16 map(const F16& a, F f) {
  F16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) r.v[i] = f(a.v[i]);
  return r;
}
template <class F>
HWY_INLINE F16 map(const F16& a, const F16& b, F f) {
  F16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) r.v[i] = f(a.v[i], b.v[i]);
  return r;
}
HWY_INLINE F16 add(const F16& a, const F16& b) {
  return map(a, b, [](V x, V y) HWY_ATTR { return hn::Add(x, y); });
}
HWY_INLINE F16 mul(const F16& a, const F16& b) {
  return map(a, b, [](V x, V y) HWY_ATTR { return hn::Mul(x, y); });
}
HWY_INLINE F16 fma(const F16& a, const F16& b, const F16& c) {
  F16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) r.v[i] = fma(a.v[i], b.v[i], c.v[i]);
  return r;
}
HWY_INLINE F16 exp(const F16& a) {
  return map(a, [](V x) HWY_ATTR { return hn::Exp(D(), x); });
}
/// Folds lanes i and i + 8, then + 4, + 2, + 1.
template <class Op>
HWY_INLINE float fold(const F16& x, Op op) {
  const hn::CappedTag<float, 4> d;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(d));
  HWY_ALIGN float lanes[kLanes];
  store(x, lanes);
  COLIBRI_UNROLL
  for (int half = 8; half >= 4; half /= 2) {
    COLIBRI_UNROLL
    for (int i = 0; i < half; i += kStep) {
      hn::StoreU(op(hn::LoadU(d, lanes + i), hn::LoadU(d, lanes + i + half)), d, lanes + i);
    }
  }
  const hn::CappedTag<float, 1> one;
  const auto at = [&](int i) HWY_ATTR { return hn::LoadU(one, lanes + i); };
  return hn::GetLane(op(op(at(0), at(2)), op(at(1), at(3))));
}
HWY_INLINE float fold_sum(const F16& x) {
  return fold(x, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}
HWY_INLINE float fold_max(const F16& x) {
  return fold(x, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
}

// ---- products

/// Lines of a tile that are fetched ahead of use. Eight tiles are read side by side, more than the hardware's own
/// prefetching follows: reading from memory is three times as fast with it, from the last-level cache the same.
constexpr int kLinesAhead = 8;

/// One pair of columns: even k from the low halves of the tile's 32-bit words, odd k from the high ones.
template <int kTokens, int kTiles, bool kBoth>
HWY_INLINE void step(const float* x, const std::uint16_t* const (&tile)[kTiles], std::size_t offset,
                     V (&acc)[kTiles][kTokens][kVectors]) {
  const U u;
  hn::Vec<U> words[kTiles][kVectors];
  COLIBRI_UNROLL
  for (int i = 0; i < kTiles; ++i) {
    COLIBRI_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      words[i][v] = hn::LoadU(u, reinterpret_cast<const std::uint32_t*>(tile[i] + offset) + v * kWidth);
    }
    hwy::Prefetch(tile[i] + offset + kLinesAhead * 2 * kTileRows);
  }
  V even[kTiles][kVectors];
  COLIBRI_UNROLL
  for (int i = 0; i < kTiles; ++i) {
    COLIBRI_UNROLL
    for (int v = 0; v < kVectors; ++v) even[i][v] = hn::BitCast(D(), hn::ShiftLeft<16>(words[i][v]));
  }
  COLIBRI_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const V b = hn::Set(D(), x[t * kLanes]);
    COLIBRI_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      COLIBRI_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[i][t][v] = fma(even[i][v], b, acc[i][t][v]);
    }
  }
  V odd[kTiles][kVectors];
  COLIBRI_UNROLL
  for (int i = 0; i < kTiles; ++i) {
    COLIBRI_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      odd[i][v] = hn::BitCast(D(), hn::And(words[i][v], hn::Set(u, 0xffff0000U)));
    }
  }
  COLIBRI_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const V b = kBoth ? hn::Set(D(), x[t * kLanes + 1]) : hn::Zero(D());
    COLIBRI_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      COLIBRI_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[i][t][v] = fma(odd[i][v], b, acc[i][t][v]);
    }
  }
}

/// Accumulators from and to y[tile][stride][16].
template <int kTokens, int kTiles>
HWY_INLINE void load_sums(const float* y, int stride, V (&acc)[kTiles][kTokens][kVectors]) {
  COLIBRI_UNROLL
  for (int i = 0; i < kTiles; ++i) {
    COLIBRI_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      const float* from = y + (std::ptrdiff_t{i} * stride + t) * kLanes;
      COLIBRI_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[i][t][v] = hn::LoadU(D(), from + v * kWidth);
    }
  }
}
template <int kTokens, int kTiles>
HWY_INLINE void store_sums(const V (&acc)[kTiles][kTokens][kVectors], int stride, float* y) {
  COLIBRI_UNROLL
  for (int i = 0; i < kTiles; ++i) {
    COLIBRI_UNROLL
    for (int t = 0; t < kTokens; ++t) {
      float* to = y + (std::ptrdiff_t{i} * stride + t) * kLanes;
      COLIBRI_UNROLL
      for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[i][t][v], D(), to + v * kWidth);
    }
  }
}

/// A product of bf16 tiles: `run` takes the first kTiles of them.
struct Bf16Product {
  const Panel& x;
  int cols;
  const std::uint16_t* const* tiles;
  float* y;

  template <int kTokens, int kTiles>
  HWY_INLINE void run() const {
    const std::uint16_t* tile[kTiles];
    V acc[kTiles][kTokens][kVectors];
    COLIBRI_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      tile[i] = tiles[i];
      COLIBRI_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        COLIBRI_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[i][t][v] = hn::Zero(D());
      }
    }
    const std::ptrdiff_t chunk = std::ptrdiff_t{x.stride} * kLanes;
    const float* row = x.data;
    std::size_t offset = 0;
    int k = 0;
    for (; k + kLanes <= cols; k += kLanes, row += chunk) {
      for (int j = 0; j < kLanes; j += 2, offset += 2 * kTileRows) {
        step<kTokens, kTiles, true>(row + j, tile, offset, acc);
      }
    }
    for (; k + 2 <= cols; k += 2, row += 2, offset += 2 * kTileRows) {
      step<kTokens, kTiles, true>(row, tile, offset, acc);
    }
    if (k < cols) step<kTokens, kTiles, false>(row, tile, offset, acc);
    store_sums(acc, x.stride, y);
  }
};

/// The same of fp32 rows, continuing from y.
struct F32Product {
  const Panel& x;
  int first;
  int last;
  const float* const* tiles;
  std::ptrdiff_t row_stride;
  float* y;

  template <int kTokens, int kTiles>
  HWY_INLINE void run() const {
    const float* tile[kTiles];
    V acc[kTiles][kTokens][kVectors];
    COLIBRI_UNROLL
    for (int i = 0; i < kTiles; ++i) tile[i] = tiles[i];
    load_sums(y, x.stride, acc);
    std::ptrdiff_t offset = 0;
    for (int k = first; k < last;) {
      const float* row = x.data + std::ptrdiff_t{k / kLanes} * x.stride * kLanes + k % kLanes;
      const int end = std::min(last, (k / kLanes + 1) * kLanes);
      for (; k < end; ++k, ++row, offset += row_stride) {
        V w[kTiles][kVectors];
        COLIBRI_UNROLL
        for (int i = 0; i < kTiles; ++i) {
          COLIBRI_UNROLL
          for (int v = 0; v < kVectors; ++v) w[i][v] = hn::LoadU(D(), tile[i] + offset + v * kWidth);
          hwy::Prefetch(tile[i] + offset + kLinesAhead * row_stride);
        }
        COLIBRI_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          const V b = hn::Set(D(), row[t * kLanes]);
          COLIBRI_UNROLL
          for (int i = 0; i < kTiles; ++i) {
            COLIBRI_UNROLL
            for (int v = 0; v < kVectors; ++v) acc[i][t][v] = fma(w[i][v], b, acc[i][t][v]);
          }
        }
      }
    }
    store_sums(acc, x.stride, y);
  }
};

/// Accumulators, the even and odd columns of the tiles and one broadcast value must fit into the registers.
constexpr bool fits(int tokens, int tiles) { return (tokens + 2) * tiles * kVectors + 1 <= kRegisters; }
constexpr int kTokensAtOnce = std::clamp((kRegisters - 1) / std::max(2, kVectors) - 2, 1, kMaxTokens);

template <int kTokens, int kTiles, class Product>
HWY_INLINE void take(Product& product, int& n) {
  if constexpr (kTiles == 1 || fits(kTokens, kTiles)) {
    for (; n >= kTiles; n -= kTiles) {
      product.template run<kTokens, kTiles>();
      product.tiles += kTiles;
      product.y += std::ptrdiff_t{kTiles} * product.x.stride * kLanes;
    }
  }
}

template <int kTokens, class Product>
void run_tiles(Product product, int n) {
  take<kTokens, 8>(product, n);
  take<kTokens, 4>(product, n);
  take<kTokens, 2>(product, n);
  take<kTokens, 1>(product, n);
}

template <class Product, int... kBefore>
void run_tokens(const Product& product, int n, std::integer_sequence<int, kBefore...>) {
  static constexpr void (*kRun[])(Product, int) = {run_tiles<kBefore + 1, Product>...};
  kRun[product.x.tokens - 1](product, n);
}

void product(const Panel& x, int cols, const std::uint16_t* const* tiles, int n, float* y) {
  run_tokens(Bf16Product{x, cols, tiles, y}, n, std::make_integer_sequence<int, kTokensAtOnce>());
}

void product_f32(const Panel& x, int first, int last, const float* const* tiles, int n, std::ptrdiff_t row_stride,
                 int last_width, float* y) {
  const int whole = last_width == kLanes ? n : n - 1;
  run_tokens(F32Product{x, first, last, tiles, row_stride, y}, whole, std::make_integer_sequence<int, kTokensAtOnce>());
  if (whole == n) return;
  y += std::ptrdiff_t{whole} * x.stride * kLanes;
  for (int t = 0; t < x.tokens; ++t) {
    F16 acc = load(y + t * kLanes);
    for (int k = first; k < last; ++k) {
      const float value = x.data[(std::ptrdiff_t{k / kLanes} * x.stride + t) * kLanes + k % kLanes];
      acc = fma(load_n(tiles[whole] + (k - first) * row_stride, last_width), set(value), acc);
    }
    store(acc, y + t * kLanes);
  }
}

// Accumulators, the queries and one key must fit into the registers.
constexpr int kDotTokens = kVectors == 1 ? 4 : 2;
constexpr int kDotKeys = kDotTokens;

template <int kTokens>
HWY_INLINE void dot_block(const float* x, std::ptrdiff_t chunk_stride, int dim, const float* keys,
                          std::ptrdiff_t key_stride, float* y) {
  F16 acc[kTokens][kDotKeys];
  COLIBRI_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    COLIBRI_UNROLL
    for (int k = 0; k < kDotKeys; ++k) acc[t][k] = set(0.0F);
  }
  const auto add_chunk = [&](auto load_key) HWY_ATTR {
    F16 q[kTokens];
    COLIBRI_UNROLL
    for (int t = 0; t < kTokens; ++t) q[t] = load(x + t * kLanes);
    COLIBRI_UNROLL
    for (int k = 0; k < kDotKeys; ++k) {
      const F16 key = load_key(keys + k * key_stride);
      COLIBRI_UNROLL
      for (int t = 0; t < kTokens; ++t) acc[t][k] = fma(key, q[t], acc[t][k]);
    }
  };
  int i = 0;
  for (; i + kLanes <= dim; i += kLanes, x += chunk_stride, keys += kLanes)
    add_chunk([](const float* p) HWY_ATTR { return load(p); });
  if (i < dim) add_chunk([&](const float* p) HWY_ATTR { return load_n(p, dim - i); });
  COLIBRI_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    COLIBRI_UNROLL
    for (int k = 0; k < kDotKeys; ++k) y[t * kLanes + k] = fold_sum(acc[t][k]);
  }
}

void dots(const Panel& x, int dim, const float* keys, std::ptrdiff_t key_stride, float* y) {
  const std::ptrdiff_t chunk_stride = std::ptrdiff_t{x.stride} * kLanes;
  for (int k = 0; k < kLanes; k += kDotKeys, keys += kDotKeys * key_stride) {
    int t = 0;
    for (; t + kDotTokens <= x.tokens; t += kDotTokens)
      dot_block<kDotTokens>(x.data + t * kLanes, chunk_stride, dim, keys, key_stride, y + t * kLanes + k);
    for (; t < x.tokens; ++t)
      dot_block<1>(x.data + t * kLanes, chunk_stride, dim, keys, key_stride, y + t * kLanes + k);
  }
}

void finish(const float* y, int tokens, int width, const float* bias, bool accumulate, float* out,
            std::ptrdiff_t out_stride) {
  for (int i = 0; i < width; i += kLanes) {
    const int n = std::min(kLanes, width - i);
    const F16 b = bias != nullptr ? load_n(bias + i, n) : set(0.0F);
    for (int t = 0; t < tokens; ++t, y += kLanes) {
      float* o = out + t * out_stride + i;
      F16 value = load(y);
      if (bias != nullptr) value = add(value, b);
      if (accumulate) value = add(load_n(o, n), value);
      store_n(value, o, n);
    }
  }
}

// ---- rows

float sum(const float* x, int n) {
  F16 total = set(0.0F);
  for (int i = 0; i < n; i += kLanes) total = add(total, load_n(x + i, std::min(kLanes, n - i)));
  return fold_sum(total);
}

float sum_squares(const float* x, int n) {
  F16 sum = set(0.0F);
  for (int i = 0; i < n; i += kLanes) {
    const F16 value = load_n(x + i, std::min(kLanes, n - i));
    sum = fma(value, value, sum);
  }
  return fold_sum(sum);
}

void scale_by(const float* x, float factor, const float* weight, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    store_n(mul(mul(load_n(x + i, count), set(factor)), load_n(weight + i, count)), out + i, count);
  }
}

/// x / (1 + exp(-gate)). exp is exact up to 88; beyond it the quotient is 0 for all practical purposes, and must not
/// become inf / inf.
HWY_INLINE V over_one_plus_exp(V x, V gate) {
  const D d;
  const V e = hn::Exp(d, hn::Min(hn::Neg(gate), hn::Set(d, 88.0F)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), e));
}

void silu_mul(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    const F16 silu = map(load_n(gate + i, count), [](V x) HWY_ATTR { return over_one_plus_exp(x, x); });
    store_n(mul(silu, load_n(up + i, count)), out + i, count);
  }
}

void sigmoid_mul(const float* x, const float* gate, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    store_n(
        map(load_n(x + i, count), load_n(gate + i, count), [](V a, V b) HWY_ATTR { return over_one_plus_exp(a, b); }),
        out + i, count);
  }
}

void add_product(const float* x, const float* y, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    store_n(fma(load_n(x + i, count), load_n(y + i, count), load_n(out + i, count)), out + i, count);
  }
}

void clamped_mul(const float* gate, const float* up, int n, float alpha, float limit, float* out) {
  const F16 most = set(limit);
  const F16 least = set(-limit);
  const auto min = [](V a, V b) HWY_ATTR { return hn::Min(a, b); };
  const auto max = [](V a, V b) HWY_ATTR { return hn::Max(a, b); };
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    const F16 g = map(load_n(gate + i, count), most, min);
    const F16 u = map(map(load_n(up + i, count), most, min), least, max);
    const F16 turned = map(g, mul(g, set(alpha)), [](V a, V b) HWY_ATTR { return over_one_plus_exp(a, b); });
    store_n(mul(turned, add(u, set(1.0F))), out + i, count);
  }
}

void sigmoid(float* x, int n) {
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    store_n(map(load_n(x + i, count), [](V v) HWY_ATTR { return over_one_plus_exp(hn::Set(D(), 1.0F), v); }), x + i,
            count);
  }
}

void scale_chunks(float* x, std::ptrdiff_t stride, int chunks, float factor) {
  for (int c = 0; c < chunks; ++c, x += stride) store(mul(load(x), set(factor)), x);
}

void add_scaled(const float* x, float factor, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    store_n(fma(load_n(x + i, count), set(factor), load_n(out + i, count)), out + i, count);
  }
}

void rotate(float* x, const float* cos, const float* sin, int n) {
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    const F16 c = load_n(cos + i, count);
    const F16 s = load_n(sin + i, count);
    const F16 a = load_n(x + i, count);
    const F16 b = load_n(x + n + i, count);
    const F16 minus_s = map(s, [](V v) HWY_ATTR { return hn::Neg(v); });
    store_n(fma(b, minus_s, mul(a, c)), x + i, count);
    store_n(fma(a, s, mul(b, c)), x + n + i, count);
  }
}

float exp_sum(float* x, float max, int n) {
  F16 sum = set(0.0F);
  for (int i = 0; i < n; i += kLanes) {
    const int count = std::min(kLanes, n - i);
    F16 value = exp(add(load_n(x + i, count), set(-max)));
    store_n(value, x + i, count);
    if (count < kLanes) value = load_n(x + i, count);
    sum = add(sum, value);
  }
  return fold_sum(sum);
}

float softmax_step(float* scores, int stride, int first, int last, float scale, float& maximum, float* sums) {
  const D d;
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  F16 s[4];
  F16 most = set(maximum);
  for (int b = 0; b < 4; ++b) {
    const int base = b * kLanes;
    if (last <= base || first >= base + kLanes) {
      s[b] = set(kMasked);
      continue;
    }
    s[b] = mul(load(scores + std::ptrdiff_t{b} * stride * kLanes), set(scale));
    if (first > base || last < base + kLanes) {
      float lanes[kLanes];
      store(s[b], lanes);
      for (int i = 0; i < kLanes; ++i) {
        if (base + i < first || base + i >= last) lanes[i] = kMasked;
      }
      s[b] = load(lanes);
    }
    most = map(most, s[b], [](V x, V y) HWY_ATTR { return hn::Max(x, y); });
  }
  const float new_maximum = fold_max(most);
  // Most groups do not move the maximum, and exp(0) is 1.
  const float factor = new_maximum == maximum ? 1.0F : hn::GetLane(hn::Exp(d, hn::Set(d, maximum - new_maximum)));
  F16 total = mul(load(sums), set(factor));
  for (int b = 0; b < 4; ++b) {
    const bool masked = last <= b * kLanes || first >= (b + 1) * kLanes;
    const F16 p = masked ? set(0.0F) : exp(add(s[b], set(-new_maximum)));
    store(p, scores + std::ptrdiff_t{b} * stride * kLanes);
    total = add(total, p);
  }
  store(total, sums);
  maximum = new_maximum;
  return factor;
}

/// kChunks times 16 columns side by side, as many chains as hide the latency.
template <int kChunks>
HWY_INLINE void delta_chunks(float* state, std::ptrdiff_t stride, int k_dim, int width, const float* q, const float* k,
                             const float* v, float decay, float beta, float* out) {
  const F16 kept = set(decay);
  F16 sum[kChunks];
  COLIBRI_UNROLL
  for (int c = 0; c < kChunks; ++c) sum[c] = set(0.0F);
  for (int i = 0; i < k_dim; ++i) {
    const F16 key = set(k[i]);
    COLIBRI_UNROLL
    for (int c = 0; c < kChunks; ++c) sum[c] = fma(mul(load(state + i * stride + c * kLanes), kept), key, sum[c]);
  }
  F16 change[kChunks];
  COLIBRI_UNROLL
  for (int c = 0; c < kChunks; ++c) {
    const F16 value = load_n(v + c * kLanes, std::min(kLanes, width - c * kLanes));
    change[c] = mul(map(value, sum[c], [](V a, V b) HWY_ATTR { return hn::Sub(a, b); }), set(beta));
    sum[c] = set(0.0F);
  }
  for (int i = 0; i < k_dim; ++i) {
    const F16 key = set(k[i]);
    const F16 query = set(q[i]);
    COLIBRI_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      float* place = state + i * stride + c * kLanes;
      const F16 next = fma(key, change[c], mul(load(place), kept));
      store(next, place);
      sum[c] = fma(next, query, sum[c]);
    }
  }
  COLIBRI_UNROLL
  for (int c = 0; c < kChunks; ++c) store_n(sum[c], out + c * kLanes, std::min(kLanes, width - c * kLanes));
}

void delta_step(float* state, std::ptrdiff_t stride, int k_dim, int width, const float* q, const float* k,
                const float* v, float decay, float beta, float* out) {
  constexpr int kChunks = kVectors == 1 ? 4 : 2;
  int at = 0;
  for (; at + kChunks * kLanes <= width; at += kChunks * kLanes)
    delta_chunks<kChunks>(state + at, stride, k_dim, kChunks * kLanes, q, k, v + at, decay, beta, out + at);
  for (; at < width; at += kLanes)
    delta_chunks<1>(state + at, stride, k_dim, std::min(kLanes, width - at), q, k, v + at, decay, beta, out + at);
}

double multiply_adds(int rounds) {
  constexpr int kChains = kRegisters / 2;
  const V factor = hn::Set(D(), 0.5F);
  V chain[kChains];
  COLIBRI_UNROLL
  for (int i = 0; i < kChains; ++i) chain[i] = hn::Set(D(), static_cast<float>(i));
  for (int round = 0; round < rounds; ++round) {
    COLIBRI_UNROLL
    for (int i = 0; i < kChains; ++i) chain[i] = fma(chain[i], factor, factor);
  }
  V sum = chain[0];
  COLIBRI_UNROLL
  for (int i = 1; i < kChains; ++i) sum = hn::Add(sum, chain[i]);
  // The result is used, so that the loop is not removed: it is positive.
  return hn::GetLane(sum) > 0.0F ? 2.0 * kChains * kWidth * rounds : 0.0;
}

const Simd* table() {
  static const Simd kernels{hwy::TargetName(HWY_TARGET),
                            kTokensAtOnce,
                            product,
                            product_f32,
                            dots,
                            finish,
                            sum,
                            sum_squares,
                            scale_by,
                            silu_mul,
                            sigmoid_mul,
                            add_product,
                            clamped_mul,
                            sigmoid,
                            scale_chunks,
                            add_scaled,
                            rotate,
                            exp_sum,
                            softmax_step,
                            delta_step,
                            multiply_adds};
  return &kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace colibri::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace colibri::cpu {
HWY_EXPORT(table);
const Simd& simd() { return *HWY_DYNAMIC_DISPATCH(table)(); }
}  // namespace colibri::cpu
#endif
