// SPDX-License-Identifier: Apache-2.0
// Packing of any shape and any cut against the definition in core/matrix.h, and the finite check against the classes.
#include "model/pack.h"

#include <cmath>
#include <random>
#include <vector>

#include "core/matrix.h"
#include "model/fixture.h"

namespace colibri {
namespace {

TEST(Pack, EveryShapeAndCutGivesTheDefinedOrder) {
  std::mt19937 random(1);
  for (const auto& [rows, cols] :
       {std::pair{1, 1}, {16, 2}, {17, 3}, {48, 64}, {33, 96}, {64, 34}, {100, 31}, {16, 400}}) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(rows * cols));
    for (std::uint16_t& value : values) value = static_cast<std::uint16_t>(random() & 0x7eff);
    std::vector<std::uint16_t> tiles(matrix_bytes(rows, cols) / 2);
    auto* bytes = reinterpret_cast<std::byte*>(tiles.data());
    for (int row = 0; row < rows;) {
      const int n = std::min(rows - row, 1 + static_cast<int>(random() % 40));
      pack_rows(bytes, cols, row, n, values.data() + row * cols);
      row += n;
    }
    const Matrix matrix{bytes, rows, cols};
    std::size_t wrong = 0;
    for (int r = 0; r < matrix.tiles() * kTileRows; ++r) {
      for (int c = 0; c < matrix.pairs() * 2; ++c) {
        const bool inside = r < rows && c < cols;
        const float expected = inside ? bf16_to_float(values[static_cast<std::size_t>(r * cols + c)]) : 0.0F;
        wrong += matrix.at(r, c) != expected;
      }
    }
    EXPECT_EQ(wrong, 0U) << rows << " x " << cols;
  }
}

TEST(Pack, ColumnsGiveTheTransposedMatrix) {
  std::mt19937 random(2);
  for (const auto& [rows, cols] : {std::pair{1, 1}, {16, 2}, {17, 3}, {64, 31}, {33, 40}}) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(rows * cols));  // [cols][rows]
    for (std::uint16_t& value : values) value = static_cast<std::uint16_t>(random() & 0x7eff);
    std::vector<std::uint16_t> tiles(matrix_bytes(rows, cols) / 2);
    auto* bytes = reinterpret_cast<std::byte*>(tiles.data());
    for (int col = 0; col < cols;) {
      const int n = std::min(cols - col, 1 + static_cast<int>(random() % 7));
      pack_columns(bytes, rows, cols, col, n, values.data() + col * rows, rows, 1);
      col += n;
    }
    const Matrix matrix{bytes, rows, cols};
    std::size_t wrong = 0;
    for (int r = 0; r < matrix.tiles() * kTileRows; ++r) {
      for (int c = 0; c < matrix.pairs() * 2; ++c) {
        const bool inside = r < rows && c < cols;
        const float expected = inside ? bf16_to_float(values[static_cast<std::size_t>(c * rows + r)]) : 0.0F;
        wrong += matrix.at(r, c) != expected;
      }
    }
    EXPECT_EQ(wrong, 0U) << rows << " x " << cols;
  }
}

TEST(Pack, ColumnsMayStandByTurns) {
  const std::vector<std::uint16_t> values = {1, 101, 2, 102, 3, 103, 4, 104};  // [2 columns][2 rows][2]
  std::vector<std::uint16_t> tiles(matrix_bytes(2, 2) / 2);
  pack_columns(reinterpret_cast<std::byte*>(tiles.data()), 2, 2, 0, 2, values.data() + 1, 4, 2);
  EXPECT_EQ((std::vector<std::uint16_t>{tiles.begin(), tiles.begin() + 4}),
            (std::vector<std::uint16_t>{101, 103, 102, 104}));
}

TEST(Pack, FiniteCheckKnowsEveryBf16) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<std::uint16_t>(bits);
    const std::vector<std::uint16_t> alone{value};
    ASSERT_EQ(all_finite_bf16(alone.data(), 1), std::isfinite(bf16_to_float(value))) << bits;
    const std::vector<std::uint16_t> among{0x7f7f, 0xff7f, 0xff7f, 0x0001, 0xff7f, value, 0x7f7f, 0xff7f, 0};
    ASSERT_EQ(all_finite_bf16(among.data(), among.size()), std::isfinite(bf16_to_float(value))) << bits;
  }
}

}  // namespace
}  // namespace colibri
