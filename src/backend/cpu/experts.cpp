// SPDX-License-Identifier: Apache-2.0
// The routed experts of one layer: down(silu(gate x) * (up x)), weighted and summed.
// Invariant: two regions. In the first a task owns 64 hidden values of one expert, in the second some outputs of every
// row: it runs all experts for these outputs and then sums each row's slots in their order, so no sum is shared.
#include <algorithm>
#include <array>

#include "backend/cpu/cpu.h"
#include "base/check.h"
#include "core/dispatch.h"

namespace colibri::cpu {

namespace {

/// y[tile][token][16] += bias, `width` values over the tiles.
void add_bias(float* y, const float* bias, int width, int tokens) {
  for (int first = 0; first < width; first += kTileRows) {
    for (int t = 0; t < tokens; ++t, y += kLanes)
      for (int i = 0; i < std::min(kTileRows, width - first); ++i) y[i] += bias[first + i];
  }
}

}  // namespace

/// Groups the (row, slot) pairs by expert and cuts each group into blocks of nearly equal size.
void CpuBackend::dispatch(const Routing& routing, int n_experts) {
  offsets_.resize(static_cast<std::size_t>(n_experts) + 1);
  pairs_.resize(routing.ids.size());
  place_.resize(routing.ids.size());
  build_dispatch(routing.ids, n_experts, offsets_, pairs_);
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    place_[static_cast<std::size_t>(pairs_[i])] = static_cast<std::int32_t>(i);
  }
  blocks_.clear();
  awake_.clear();
  for (int e = 0; e < n_experts; ++e) {
    const std::int32_t first = offsets_[static_cast<std::size_t>(e)];
    const std::int32_t tokens = offsets_[static_cast<std::size_t>(e) + 1] - first;
    if (tokens == 0) continue;
    const int count = ceil_div(tokens, simd_.max_tokens);
    const int before = static_cast<int>(blocks_.size());
    for (int b = 0; b < count; ++b) {
      const int from = static_cast<int>(std::int64_t{b} * tokens / count);
      const int to = static_cast<int>(std::int64_t{b + 1} * tokens / count);
      blocks_.push_back({e, first + from, to - from});
    }
    awake_.push_back({before, before + count});
  }
  // The busiest expert first: as the last one it would leave the other threads waiting.
  std::stable_sort(awake_.begin(), awake_.end(),
                   [](const BlockRange& a, const BlockRange& b) { return a.last - a.first > b.last - b.first; });
}

void CpuBackend::experts(ConstRows x, const Routing& routing, const ExpertTable& table, Rows out) {
  const int d_model = table.shape.d_model;
  const int d_ff = table.shape.d_ff;
  const auto top_k = static_cast<std::size_t>(routing.top_k);
  CHECK(x.rows == out.rows && x.cols == d_model && out.cols == d_model && routing.top_k >= 1);
  CHECK(routing.ids.size() == static_cast<std::size_t>(x.rows) * top_k && routing.weights.size() == routing.ids.size());
  if (x.rows == 0) return;
  dispatch(routing, static_cast<int>(table.records.size()));
  counters_.experts_touched += static_cast<std::int64_t>(awake_.size());

  const auto x_padded = static_cast<std::size_t>(pad_lanes(d_model));
  const auto h_padded = static_cast<std::size_t>(pad_lanes(d_ff));
  const std::size_t n_pairs = pairs_.size();
  float* panels = panels_.floats(n_pairs * x_padded);
  float* hidden = hidden_.floats(n_pairs * h_padded);

  const auto row_of = [&](const ExpertBlock& block, int t) {
    return x.row(pairs_[static_cast<std::size_t>(block.first + t)] / routing.top_k);
  };
  const auto n_blocks = static_cast<int>(blocks_.size());
  if (x.rows > 1) {
    for_rows(n_blocks, n_pairs * x_padded / blocks_.size(), [&](int first, int last) {
      for (int b = first; b < last; ++b) {
        const ExpertBlock& block = blocks_[static_cast<std::size_t>(b)];
        if (block.tokens == 1) continue;  // a row is its own panel
        pack_panel([&](int t) { return row_of(block, t); }, block.tokens, d_model,
                   panels + static_cast<std::size_t>(block.first) * x_padded);
      }
    });
  }

  constexpr int kPairTiles = kMaxTiles / 2;  // gate tiles of a call; as many of up stand beside them
  const int h_tiles = ceil_div(d_ff, kTileRows);
  const int h_groups = ceil_div(h_tiles, kPairTiles);
  const bool alone = n_pairs * x_padded * h_padded <= kGrain;
  const auto activate = [&](int task, int) {
    alignas(64) std::array<float, kMaxTiles * kMaxTokens * kLanes> y;
    std::array<const std::uint16_t*, kMaxTiles> tile;
    const BlockRange& range = awake_[static_cast<std::size_t>(task / h_groups)];
    const int first_tile = task % h_groups * kPairTiles;
    const int n = std::min(kPairTiles, h_tiles - first_tile);
    for (int b = range.first; b < range.last; ++b) {
      const ExpertBlock& block = blocks_[static_cast<std::size_t>(b)];
      CHECK(table.records[static_cast<std::size_t>(block.expert)] != nullptr);
      for (int i = 0; i < n; ++i) {
        tile[static_cast<std::size_t>(i)] = table.gate(block.expert).tile(first_tile + i);
        tile[static_cast<std::size_t>(n + i)] = table.up(block.expert).tile(first_tile + i);
      }
      const float* panel =
          block.tokens == 1 ? row_of(block, 0) : panels + static_cast<std::size_t>(block.first) * x_padded;
      simd_.product({panel, block.tokens, block.tokens}, d_model, tile.data(), 2 * n, y.data());
      const int half = n * block.tokens * kLanes;
      if (const float* bias = table.gate_up_bias(block.expert)) {
        const int column = first_tile * kTileRows;
        const int width = std::min(n * kTileRows, d_ff - column);
        add_bias(y.data(), bias + column, width, block.tokens);
        add_bias(y.data() + half, bias + d_ff + column, width, block.tokens);
      }
      float* out_hidden =
          hidden + static_cast<std::size_t>(block.first) * h_padded + first_tile * block.tokens * kLanes;
      if (const auto* clamped = std::get_if<ClampedGate>(&table.activation)) {
        simd_.clamped_mul(y.data(), y.data() + half, half, clamped->alpha, clamped->limit, out_hidden);
      } else {
        simd_.silu_mul(y.data(), y.data() + half, half, out_hidden);
      }
    }
  };

  const int out_tiles = ceil_div(d_model, kTileRows);
  // A lone row needs all the chains of a call to keep the multipliers busy; many rows bring their own.
  const int group = x.rows < 8 ? kMaxTiles : std::clamp(out_tiles / (4 * pool_.size()), 1, kMaxTiles);
  const std::size_t part = n_pairs * static_cast<std::size_t>(group * kTileRows);  // outputs of a task, of all pairs
  float* parts = parts_.floats(part * static_cast<std::size_t>(pool_.size()));
  const auto combine = [&](int task, int thread) {
    alignas(64) std::array<float, kMaxTiles * kMaxTokens * kLanes> y;
    std::array<const std::uint16_t*, kMaxTiles> tile;
    const int first_tile = task * group;
    const int n = std::min(group, out_tiles - first_tile);
    const int column = first_tile * kTileRows;
    const int width = std::min(n * kTileRows, d_model - column);
    float* own = parts + part * static_cast<std::size_t>(thread);  // [pairs][width]
    for (const ExpertBlock& block : blocks_) {
      for (int i = 0; i < n; ++i) tile[static_cast<std::size_t>(i)] = table.down(block.expert).tile(first_tile + i);
      simd_.product({hidden + static_cast<std::size_t>(block.first) * h_padded, block.tokens, block.tokens}, d_ff,
                    tile.data(), n, y.data());
      const float* bias = table.down_bias(block.expert);
      simd_.finish(y.data(), block.tokens, width, bias == nullptr ? nullptr : bias + column, false,
                   own + std::ptrdiff_t{block.first} * width, width);
    }
    for (int r = 0; r < x.rows; ++r) {
      float* sum = y.data();
      std::fill_n(sum, width, 0.0F);
      for (std::size_t pair = static_cast<std::size_t>(r) * top_k; pair < static_cast<std::size_t>(r + 1) * top_k;
           ++pair) {
        const float* from = own + std::ptrdiff_t{place_[pair]} * width;
        simd_.add_scaled(from, routing.weights[pair], width, sum);
      }
      simd_.add_scaled(sum, 1.0F, width, out.row(r) + column);
    }
  };

  const int activate_tasks = static_cast<int>(awake_.size()) * h_groups;
  const int combine_tasks = ceil_div(out_tiles, group);
  if (alone) {
    for (int task = 0; task < activate_tasks; ++task) activate(task, 0);
    for (int task = 0; task < combine_tasks; ++task) combine(task, 0);
    return;
  }
  pool_.parallel(activate_tasks, activate);
  pool_.parallel(combine_tasks, combine);
}

}  // namespace colibri::cpu
