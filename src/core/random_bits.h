// SPDX-License-Identifier: Apache-2.0
// Random bf16 matrices that are the same wherever they are made.
// Invariant: a number depends on the seed and its place alone; padding is 0; entries of a matrix of n inputs have a
// root mean square near n^-0.5, so that activations keep their size from layer to layer.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/matrix.h"

namespace colibri::random_bits {

/// splitmix64's finaliser: a bijection that mixes all bits.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Exponent fields of four bf16 numbers +-[1, 2) * 2^e with root mean square near cols^-0.5; that of +-[1, 2) is
/// sqrt(7 / 3).
inline std::uint64_t exponents(int cols) {
  const auto exponent = static_cast<int>(std::lround(-0.5 * std::log2(cols) - 0.5 * std::log2(7.0 / 3.0)));
  return (static_cast<std::uint64_t>(127 + exponent) << 7) * 0x0001'0001'0001'0001U;
}

/// Numbers 4 index ... 4 index + 3 of a matrix's memory, padding not yet 0: sign and mantissa are random.
constexpr std::uint64_t word(std::uint64_t seed, std::uint64_t index, std::uint64_t exponents) {
  return (mix(seed + index * 0x9e3779b97f4a7c15U) & 0x807f'807f'807f'807f) | exponents;
}

/// Whether number `index` of a matrix's memory is padding.
constexpr bool is_padding(std::uint64_t index, int rows, int cols) {
  const std::uint64_t pair = index / (2 * kTileRows);  // counted over all tiles
  const std::uint64_t pairs = (static_cast<std::uint64_t>(cols) + 1) / 2;
  const std::uint64_t row = pair / pairs * kTileRows + index / 2 % kTileRows;
  const std::uint64_t col = pair % pairs * 2 + index % 2;
  return row >= static_cast<std::uint64_t>(rows) || col >= static_cast<std::uint64_t>(cols);
}

constexpr bool has_padding(int rows, int cols) { return rows % kTileRows != 0 || cols % 2 != 0; }

/// In host memory.
inline void fill(const Matrix& matrix, std::uint64_t seed) {
  auto* out = const_cast<std::byte*>(matrix.data);
  const std::uint64_t fields = exponents(matrix.cols);
  const std::size_t words = matrix_bytes(matrix.rows, matrix.cols) / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t value = word(seed, i, fields);
    std::memcpy(out + i * sizeof value, &value, sizeof value);
  }
  if (!has_padding(matrix.rows, matrix.cols)) return;
  for (std::size_t i = 0; i < 4 * words; ++i)
    if (is_padding(i, matrix.rows, matrix.cols)) std::memset(out + 2 * i, 0, 2);
}

}  // namespace colibri::random_bits
