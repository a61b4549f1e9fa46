// SPDX-License-Identifier: Apache-2.0
// The tile order: what is packed is found again, stands where the format says, and padding is 0.
#include "core/matrix.h"

#include <gtest/gtest.h>
#include <vector>

#include "core/expert_table.h"
#include "core/kv_view.h"

namespace colibri {
namespace {

std::uint16_t value_at(int row, int col) { return static_cast<std::uint16_t>(0x3f80 + row * 7 + col); }

TEST(Matrix, HoldsWhatWasPackedAndZerosElsewhere) {
  for (const int rows : {1, 15, 16, 17, 40}) {
    for (const int cols : {1, 2, 3, 16, 33}) {
      std::vector<std::byte> bytes(matrix_bytes(rows, cols));
      std::vector<std::uint16_t> row(static_cast<std::size_t>(cols));
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; ++c) row[static_cast<std::size_t>(c)] = value_at(r, c);
        pack_row(bytes.data(), cols, r, row.data());
      }
      const Matrix matrix{bytes.data(), rows, cols};
      const auto* words = reinterpret_cast<const std::uint16_t*>(bytes.data());
      std::size_t i = 0;
      for (int tile = 0; tile < (rows + 15) / 16; ++tile) {
        for (int pair = 0; pair < (cols + 1) / 2; ++pair) {
          for (int lane = 0; lane < 16; ++lane) {
            for (int odd = 0; odd < 2; ++odd, ++i) {
              const int r = tile * 16 + lane;
              const int c = pair * 2 + odd;
              ASSERT_EQ(words[i], r < rows && c < cols ? value_at(r, c) : 0);
              if (r >= rows || c >= cols) continue;
              ASSERT_EQ(matrix.at(r, c), bf16_to_float(value_at(r, c)));
            }
          }
        }
      }
      EXPECT_EQ(i * 2, bytes.size());
    }
  }
}

TEST(Matrix, SizesBeyond32BitsAreCounted) {
  EXPECT_EQ(matrix_bytes(1 << 20, 1 << 14), std::size_t{1} << 35);
  const Matrix matrix{nullptr, 1 << 20, 1 << 14};
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix.tile((1 << 16) - 1)), ((std::uintptr_t{1} << 16) - 1) << 19);
}

TEST(Matrix, OfNoRowsOrNoColumnsIsEmpty) {
  EXPECT_EQ(matrix_bytes(0, 5), 0U);
  EXPECT_EQ(matrix_bytes(5, 0), 0U);
}

TEST(ExpertShape, PartsAreAlignedAndApart) {
  for (const ExpertShape shape : {ExpertShape{256, 64}, ExpertShape{24, 10}, ExpertShape{1, 1}, ExpertShape{33, 17}}) {
    EXPECT_EQ(shape.up_offset() % kRecordAlignment, 0U);
    EXPECT_EQ(shape.record_bytes() % kRecordAlignment, 0U);
    EXPECT_GE(shape.up_offset(), matrix_bytes(shape.d_ff, shape.d_model));
    EXPECT_EQ(shape.down_offset(), 2 * shape.up_offset());
    EXPECT_GE(shape.record_bytes() - shape.down_offset(), matrix_bytes(shape.d_model, shape.d_ff));
  }
}

TEST(KvView, HeadsOfABlockDoNotOverlap) {
  std::vector<float> memory(2 * kv_block_floats(3, 24));
  const KvView kv{memory.data(), static_cast<std::ptrdiff_t>(kv_block_floats(3, 24)), 3, 24};
  EXPECT_EQ(kv.keys(0, 0), memory.data());
  EXPECT_EQ(kv.keys(0, 1) - kv.keys(0, 0), 24 * 16);
  EXPECT_EQ(kv.values(0, 0) - kv.keys(0, 2), 24 * 16);
  EXPECT_EQ(kv.values(1, 2) + 24 * 16, memory.data() + memory.size());
}

}  // namespace
}  // namespace colibri
