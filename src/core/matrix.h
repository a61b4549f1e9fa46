// SPDX-License-Identifier: Apache-2.0
// Weight matrices of y = W x in the one order that every backend reads.
//
// Invariant: a matrix of `rows` outputs and `cols` inputs is a sequence of tiles of 16 rows; a tile is
// [ceil(cols / 2)][16 rows][2 columns], so 64 bytes of bf16 hold two consecutive inputs of 16 outputs: one AVX-512
// register, one line of an AMX tile, the 32-bit words of an mma fragment. Rows are padded to 16 and columns to 2 with
// 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/half.h"

namespace colibri {

inline constexpr int kTileRows = 16;

struct Matrix {
  const std::byte* data = nullptr;  // 64-byte aligned, matrix_bytes(rows, cols) long
  int rows = 0;                     // outputs
  int cols = 0;                     // inputs

  int tiles() const { return (rows + kTileRows - 1) / kTileRows; }
  int pairs() const { return (cols + 1) / 2; }
  /// bf16 pairs of one tile: [pairs][16][2].
  const std::uint16_t* tile(int index) const {
    return reinterpret_cast<const std::uint16_t*>(data) +
           static_cast<std::size_t>(index) * static_cast<std::size_t>(pairs()) * 2 * kTileRows;
  }
  float at(int row, int col) const {
    return bf16_to_float(tile(row / kTileRows)[(col / 2 * kTileRows + row % kTileRows) * 2 + col % 2]);
  }
};

constexpr std::size_t matrix_bytes(int rows, int cols) {
  const auto tiles = static_cast<std::size_t>((rows + kTileRows - 1) / kTileRows);
  return tiles * static_cast<std::size_t>((cols + 1) / 2) * 2 * kTileRows * sizeof(std::uint16_t);
}

/// Writes row `row` of a matrix of `cols` columns whose tiles start at `tiles` (zeroed before the first write).
/// `values` holds cols bf16 numbers.
inline void pack_row(std::byte* tiles, int cols, int row, const std::uint16_t* values) {
  auto* tile = reinterpret_cast<std::uint16_t*>(tiles) +
               static_cast<std::size_t>(row / kTileRows) * static_cast<std::size_t>((cols + 1) / 2) * 2 * kTileRows;
  for (int col = 0; col < cols; ++col) tile[(col / 2 * kTileRows + row % kTileRows) * 2 + col % 2] = values[col];
}

}  // namespace colibri
