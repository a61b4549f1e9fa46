// SPDX-License-Identifier: Apache-2.0
// y = W x + b for any number of rows.
// Invariant: a task holds some tiles of W in its core's cache and runs blocks of rows past them; both cuts are free.
#include <algorithm>
#include <array>

#include "backend/cpu/cpu.h"
#include "base/check.h"

namespace colibri::cpu {
namespace {

constexpr std::size_t kTilesBytes = std::size_t{256} << 10;  // of W that a task keeps in its second-level cache

}  // namespace

void CpuBackend::linear(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out) {
  CHECK(x.rows == out.rows && x.cols == w.cols && out.cols == w.rows);
  CHECK(bias.empty() || static_cast<int>(bias.size()) == w.rows);
  if (x.rows == 0 || w.rows == 0) return;

  // Blocks of nearly equal size: block b is rows [b n / blocks, (b + 1) n / blocks).
  const int blocks = ceil_div(x.rows, simd_.max_tokens);
  const auto begin = [&](int block) { return static_cast<int>(std::int64_t{block} * x.rows / blocks); };
  const float* panels = x.row(0);
  const auto padded = static_cast<std::size_t>(pad_lanes(x.cols));
  if (x.rows > 1) {
    float* packed = panels_.floats(static_cast<std::size_t>(x.rows) * padded);
    for_rows(blocks, static_cast<std::size_t>(simd_.max_tokens) * padded, [&](int first, int last) {
      for (int b = first; b < last; ++b) {
        const int row = begin(b);
        pack_panel([&](int t) { return x.row(row + t); }, begin(b + 1) - row, x.cols,
                   packed + static_cast<std::size_t>(row) * padded);
      }
    });
    panels = packed;
  }

  const int tiles = w.tiles();
  const std::size_t tile_bytes = matrix_bytes(kTileRows, w.cols);
  const std::size_t work = static_cast<std::size_t>(x.rows) * static_cast<std::size_t>(tiles) * tile_bytes / 2;
  int group = tiles;          // tiles of a task
  int group_blocks = blocks;  // blocks of a task
  if (work > kGrain) {
    const int most = static_cast<int>(std::max<std::size_t>(1, kTilesBytes / std::max<std::size_t>(1, tile_bytes)));
    group = ceil_div(std::clamp(tiles / (8 * pool_.size()), 1, most), kMaxTiles) * kMaxTiles;
    const int wanted = ceil_div(4 * pool_.size(), ceil_div(tiles, group));  // cuts of the rows, to have enough tasks
    group_blocks = std::max(1, blocks / wanted);
  }
  const int groups = ceil_div(tiles, group);
  pool_.parallel(groups * ceil_div(blocks, group_blocks), [&](int task, int) {
    alignas(64) std::array<float, kMaxTiles * kMaxTokens * kLanes> y;
    std::array<const std::uint16_t*, kMaxTiles> tile;
    const int first_tile = task % groups * group;
    const int last_tile = std::min(tiles, first_tile + group);
    const int first_block = task / groups * group_blocks;
    const int last_block = std::min(blocks, first_block + group_blocks);
    for (int b = first_block; b < last_block; ++b) {
      const int row = begin(b);
      const int tokens = begin(b + 1) - row;
      const Panel panel{panels + static_cast<std::size_t>(row) * padded, tokens, tokens};
      for (int i = first_tile; i < last_tile; i += kMaxTiles) {
        const int n = std::min(kMaxTiles, last_tile - i);
        for (int j = 0; j < n; ++j) tile[static_cast<std::size_t>(j)] = w.tile(i + j);
        simd_.product(panel, w.cols, tile.data(), n, y.data());
        const int column = i * kTileRows;
        simd_.finish(y.data(), tokens, std::min(n * kTileRows, w.rows - column),
                     bias.empty() ? nullptr : bias.data() + column, accumulate, out.row(row) + column, out.stride);
      }
    }
  });
}

}  // namespace colibri::cpu
