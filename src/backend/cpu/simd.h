// SPDX-License-Identifier: Apache-2.0
// The vector kernels of the cpu backend, as one table of functions per instruction set (AVX-512, AVX2, NEON, plain).
//
// Invariant: every instruction set gives the same bits. A product is one chain of fused multiply-adds in ascending k,
// starting from 0; other sums go into 16 partial sums (element i into i % 16) that are folded 8, 4, 2, 1.
//
// Activations enter products as a panel: [ceil(k / 16)][tokens][16], so that tokens stand at fixed distances; a single
// row is its own panel. Results come as y[tile][tokens][16 outputs], which is a panel of the next product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix.h"

namespace colibri::cpu {

inline constexpr int kLanes = 16;
inline constexpr int kMaxTokens = 12;  // rows of x in a panel
inline constexpr int kMaxTiles = 8;    // tiles of a product call: with one token, as many chains as the latency hides

/// Some of the `stride` tokens of a panel-shaped buffer: token t of chunk c at data + (c * stride + t) * 16.
struct Panel {
  const float* data;
  int stride;  // tokens of the whole panel
  int tokens;  // that take part
};

struct Simd {
  const char* name;
  int max_tokens;  // rows of x that a product takes at once, <= kMaxTokens

  /// y[i][t][16] = chain over k < cols of tile i (bf16, core/matrix.h) and token t; n tiles <= kMaxTiles.
  void (*product)(const Panel& x, int cols, const std::uint16_t* const* tiles, int n, float* y);

  /// y[i][t][16] continues its chain over k in [first, last) with rows of fp32: row k of tile i at
  /// tiles[i] + (k - first) * row_stride; the last tile has only `last_width` of its 16 outputs.
  void (*product_f32)(const Panel& x, int first, int last, const float* const* tiles, int n, std::ptrdiff_t row_stride,
                      int last_width, float* y);

  /// y[t][key] of 16 keys: element i of key and token into partial sum i % 16, ascending, then folded. The keys stand
  /// at keys + key * key_stride.
  void (*dots)(const Panel& x, int dim, const float* keys, std::ptrdiff_t key_stride, float* y);

  /// out[t][16 i + lane] = y[i][t][lane] + bias[16 i + lane] (if any), then + out where `accumulate`; `width` outputs.
  void (*finish)(const float* y, int tokens, int width, const float* bias, bool accumulate, float* out,
                 std::ptrdiff_t out_stride);

  float (*sum)(const float* x, int n);
  float (*sum_squares)(const float* x, int n);
  /// out = x * factor * weight
  void (*scale_by)(const float* x, float factor, const float* weight, int n, float* out);
  /// out = silu(gate) * up
  void (*silu_mul)(const float* gate, const float* up, int n, float* out);
  /// out = x * sigmoid(gate)
  void (*sigmoid_mul)(const float* x, const float* gate, int n, float* out);
  /// out += x * y, fused
  void (*add_product)(const float* x, const float* y, int n, float* out);
  /// out = g * sigmoid(alpha * g) * (u + 1), g = min(gate, limit), u = up within +-limit
  void (*clamped_mul)(const float* gate, const float* up, int n, float alpha, float limit, float* out);
  /// x = 1 / (1 + exp(-x))
  void (*sigmoid)(float* x, int n);
  /// x[chunk * stride ...] *= factor, 16 floats of each chunk
  void (*scale_chunks)(float* x, std::ptrdiff_t stride, int chunks, float factor);
  /// out += factor * x, fused
  void (*add_scaled)(const float* x, float factor, int n, float* out);
  /// Turns the pairs (x[i], x[i + n]) by cos[i], sin[i].
  void (*rotate)(float* x, const float* cos, const float* sin, int n);
  /// x = exp(x - max), and the sum of it
  float (*exp_sum)(float* x, float max, int n);

  /// One step of an online softmax over scores[4][stride][16], positions [first, last) of 64, last > first: they become
  /// probabilities relative to the new maximum, all others 0. Updates maximum and sums [16] (of positions equal modulo
  /// 16), returns the factor for what was summed before.
  float (*softmax_step)(float* scores, int stride, int first, int last, float scale, float& maximum, float* sums);
  /// One row of the gated delta rule (backend.h) on `width` columns of a head's matrix [k_dim][stride], whose columns
  /// are padded to 16: the state in place, v[width] to out[width].
  void (*delta_step)(float* state, std::ptrdiff_t stride, int k_dim, int width, const float* q, const float* k,
                     const float* v, float decay, float beta, float* out);
  /// Multiply-adds on registers alone, `rounds` times; returns how many operations (2 each) that was.
  double (*multiply_adds)(int rounds);
};

/// The kernels for this processor.
const Simd& simd();

}  // namespace colibri::cpu
