// SPDX-License-Identifier: Apache-2.0
// A tile is the transposition of 16 rows of 32-bit pairs; it is done in blocks that stay in the first-level cache.
#include "model/pack.h"

#include <algorithm>
#include <cstring>

#include "core/matrix.h"

namespace colibri {
namespace {

constexpr int kBlockPairs = 16;  // one cache line of a row
constexpr int kBlockRows = 8;    // rows at a power-of-two distance share one set of an 8-way cache

std::uint32_t load_pair(const std::uint16_t* at) {
  std::uint32_t pair = 0;
  std::memcpy(&pair, at, sizeof pair);
  return pair;
}

/// One whole tile of an even number of columns: out[p][r] = pair p of row r, `stride` numbers after row r - 1.
void pack_tile(std::uint16_t* tile, int cols, const std::uint16_t* values, std::ptrdiff_t stride) {
  for (int first = 0; first < cols / 2; first += kBlockPairs) {
    const int last = std::min(first + kBlockPairs, cols / 2);
    for (int half = 0; half < kTileRows; half += kBlockRows) {
      const std::uint16_t* rows = values + half * stride;
      for (int p = first; p < last; ++p) {
        std::uint32_t column[kBlockRows];
        for (int r = 0; r < kBlockRows; ++r) column[r] = load_pair(rows + r * stride + 2 * p);
        std::memcpy(tile + (static_cast<std::ptrdiff_t>(p) * kTileRows + half) * 2, column, sizeof column);
      }
    }
  }
}

}  // namespace

void pack_rows(std::byte* tiles, int cols, int first_row, int n_rows, const std::uint16_t* values, int step) {
  const std::ptrdiff_t stride = std::ptrdiff_t{cols} * step;
  const std::size_t tile_bytes = matrix_bytes(kTileRows, cols);
  const int end = first_row + n_rows;
  for (int row = first_row; row < end;) {
    if (cols % 2 == 0 && row % kTileRows == 0 && end - row >= kTileRows) {
      std::byte* tile = tiles + static_cast<std::size_t>(row / kTileRows) * tile_bytes;
      pack_tile(reinterpret_cast<std::uint16_t*>(tile), cols, values, stride);
      values += kTileRows * stride;
      row += kTileRows;
    } else {
      pack_row(tiles, cols, row, values);
      values += stride;
      ++row;
    }
  }
}

void pack_columns(std::byte* tiles, int rows, int cols, int first_col, int n_cols, const std::uint16_t* values,
                  int stride, int step) {
  const std::ptrdiff_t tile_words = std::ptrdiff_t{(cols + 1) / 2} * 2 * kTileRows;
  auto* words = reinterpret_cast<std::uint16_t*>(tiles);
  for (int c = first_col; c < first_col + n_cols; ++c, values += stride) {
    std::uint16_t* column = words + std::ptrdiff_t{c / 2} * 2 * kTileRows + c % 2;
    for (int r = 0; r < rows; ++r)
      column[r / kTileRows * tile_words + std::ptrdiff_t{r % kTileRows} * 2] = values[std::ptrdiff_t{r} * step];
  }
}

void round_to_bf16(std::byte* data, DType type, std::size_t count) {
  // Result i is written at byte 2 i, at or before the source it came from, so going forward never overwrites a source.
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    if (type == DType::f32) {
      std::memcpy(&value, data + 4 * i, sizeof value);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, data + 2 * i, sizeof bits);
      value = f16_to_float(bits);
    }
    const std::uint16_t rounded = float_to_bf16(value);
    std::memcpy(data + 2 * i, &rounded, sizeof rounded);
  }
}

bool all_finite_bf16(const std::uint16_t* values, std::size_t count) {
  // An exponent of all ones plus the unit below it carries into bit 15: four numbers per 64-bit word.
  constexpr std::uint64_t kExponents = 0x7f80'7f80'7f80'7f80;
  constexpr std::uint64_t kUnits = 0x0080'0080'0080'0080;
  constexpr std::uint64_t kCarries = 0x8000'8000'8000'8000;
  std::uint64_t carried = 0;
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    std::uint64_t word = 0;
    std::memcpy(&word, values + i, sizeof word);
    carried |= (word & kExponents) + kUnits;
  }
  bool finite = (carried & kCarries) == 0;
  for (; i < count; ++i) finite = finite && (values[i] & 0x7f80U) != 0x7f80U;
  return finite;
}

}  // namespace colibri
