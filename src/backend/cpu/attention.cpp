// SPDX-License-Identifier: Apache-2.0
// Causal attention over the paged cache, of keys and values or of latents, with an online softmax.
//
// Invariant: a row walks its keys in groups of 64 whose borders are multiples of 64 in absolute position. A score is
// one chain over the key (16 partial sums over a latent), an output one chain over the group's visible keys, and the
// softmax is rescaled once a group. So a row's result depends on its position and the cache alone: prompt in one piece,
// in chunks or token by token.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "backend/cpu/cpu.h"
#include "base/check.h"

namespace colibri::cpu {
namespace {

constexpr int kGroupKeys = 64;
constexpr int kGroupBlocks = kGroupKeys / kBlockTokens;

struct Range {
  int first = 0;
  int last = 0;
};

/// Floats of scratch for a tile: q, sums, probabilities of a group.
std::size_t tile_floats(int rows, int key_dim, int value_dim) {
  return static_cast<std::size_t>(rows) *
         static_cast<std::size_t>(pad_lanes(key_dim) + pad_lanes(value_dim) + kGroupKeys);
}

/// The cache of a layer with keys and values per head.
struct HeadCache {
  const KvView& kv;

  std::ptrdiff_t value_stride() const { return kv.head_dim; }
  const float* value(std::int32_t block, int head, int slot) const {
    return kv.values(block, head) + slot * value_stride();
  }
  /// scores[n][rows][16] of n blocks of 16 keys.
  void score(const Simd& simd, const Panel& queries, const std::int32_t* blocks, int n, int head, float* scores) const {
    std::array<const float*, kGroupBlocks> keys;
    for (int b = 0; b < n; ++b) keys[static_cast<std::size_t>(b)] = kv.keys(blocks[b], head);
    std::fill_n(scores, n * queries.stride * kLanes, 0.0F);
    simd.product_f32(queries, 0, kv.head_dim, keys.data(), n, kBlockTokens, kLanes, scores);
  }
};

/// The cache of a layer with latents, which all heads read.
struct LatentCache {
  const LatentView& latents;

  std::ptrdiff_t value_stride() const { return latents.dim; }
  const float* value(std::int32_t block, int, int slot) const { return latents.row(block, slot); }
  void score(const Simd& simd, const Panel& queries, const std::int32_t* blocks, int n, int, float* scores) const {
    for (int b = 0; b < n; ++b) {
      simd.dots(queries, latents.dim, latents.row(blocks[b], 0), latents.dim,
                scores + std::ptrdiff_t{b} * queries.stride * kLanes);
    }
  }
};

}  // namespace

void CpuBackend::attention(ConstRows q, const AttentionSpec& spec, std::span<const float> sinks, const Batch& batch,
                           const KvView& kv, Rows out) {
  CHECK(q.rows == batch.rows() && out.rows == q.rows && q.cols == spec.n_heads * spec.head_dim && out.cols == q.cols);
  CHECK(spec.n_kv_heads > 0 && spec.n_heads % spec.n_kv_heads == 0);
  CHECK(sinks.size() == static_cast<std::size_t>(spec.sinks ? spec.n_heads : 0));
  CHECK(kv.head_dim == spec.head_dim && kv.n_kv_heads == spec.n_kv_heads);
  const int group = spec.n_heads / spec.n_kv_heads;
  attend_all(q, {spec.n_kv_heads, group, spec.head_dim, spec.head_dim, spec.scale, spec.window, spec.kv_group, sinks},
             batch, HeadCache{kv}, out);
}

void CpuBackend::latent_attention(ConstRows queries, const LatentAttentionSpec& spec, const Batch& batch,
                                  const LatentView& cache, Rows out) {
  CHECK(queries.rows == batch.rows() && out.rows == queries.rows && cache.dim == spec.cached());
  CHECK(queries.cols == spec.n_heads * spec.cached() && out.cols == spec.n_heads * spec.kv_rank);
  attend_all(queries, {1, spec.n_heads, spec.cached(), spec.kv_rank, spec.scale, 0, spec.kv_group, {}}, batch,
             LatentCache{cache}, out);
}

template <class Cache>
void CpuBackend::attend_all(ConstRows q, const HeadGroups& heads, const Batch& batch, const Cache& cache, Rows out) {
  tiles_.clear();
  std::size_t keys = 0;
  for (int s = 0; s < static_cast<int>(batch.sequences.size()); ++s) {
    const SequenceRows& sequence = batch.sequences[static_cast<std::size_t>(s)];
    const int rows = sequence.rows * heads.size;
    const int count = ceil_div(rows, simd_.max_tokens);
    for (int i = count - 1; i >= 0; --i) {  // the longest first: it is the last one that everybody waits for
      const int first = static_cast<int>(std::int64_t{i} * rows / count);
      const int last = static_cast<int>(std::int64_t{i + 1} * rows / count);
      for (int h = 0; h < heads.count; ++h) tiles_.push_back({s, h, first, last - first});
    }
    keys += static_cast<std::size_t>(sequence.rows) * static_cast<std::size_t>(sequence.position + sequence.rows);
  }
  const std::size_t per_thread = tile_floats(simd_.max_tokens, heads.key_dim, heads.value_dim);
  float* scratch = heads_.floats(per_thread * static_cast<std::size_t>(pool_.size()));
  const auto run = [&](int task, int thread) {
    const AttentionTile& tile = tiles_[static_cast<std::size_t>(task)];
    attend(tile, q, heads, batch.sequences[static_cast<std::size_t>(tile.sequence)], cache,
           scratch + per_thread * static_cast<std::size_t>(thread), out);
  };
  const auto tasks = static_cast<int>(tiles_.size());
  if (keys * static_cast<std::size_t>(q.cols) <= kGrain) {
    for (int task = 0; task < tasks; ++task) run(task, 0);
  } else {
    pool_.parallel(tasks, run);
  }
}

template <class Cache>
void CpuBackend::attend(const AttentionTile& tile, ConstRows q, const HeadGroups& heads, const SequenceRows& sequence,
                        const Cache& cache, float* scratch, Rows out) const {
  const int rows = tile.rows;
  const int dim = heads.value_dim;
  const int chunks = ceil_div(dim, kLanes);
  const auto table = sequence.tables[static_cast<std::size_t>(heads.kv_group)];
  const auto query_of = [&](int t) { return (tile.first + t) / heads.size; };
  const auto head_of = [&](int t) { return std::ptrdiff_t{tile.kv_head} * heads.size + (tile.first + t) % heads.size; };
  const auto block_at = [&](int position) { return table[static_cast<std::size_t>(position / kBlockTokens)]; };
  /// Positions that row t sees.
  const auto sees = [&](int t) {
    const int position = sequence.position + query_of(t);
    return Range{heads.window > 0 ? std::max(0, position - heads.window + 1) : 0, position + 1};
  };

  float* queries = scratch;                                 // [key chunks][rows][16]
  float* sums = queries + rows * pad_lanes(heads.key_dim);  // [chunks][rows][16]
  float* scores = sums + rows * chunks * kLanes;            // [4][rows][16], then probabilities
  pack_panel([&](int t) { return q.row(sequence.first_row + query_of(t)) + head_of(t) * heads.key_dim; }, rows,
             heads.key_dim, queries);
  std::fill_n(sums, rows * chunks * kLanes, 0.0F);
  std::array<float, kMaxTokens> maximum;
  alignas(64) std::array<float, kMaxTokens * kLanes> total{};  // of the probabilities, [rows][16] by key modulo 16
  maximum.fill(-std::numeric_limits<float>::infinity());
  // A sink is a score that comes before all keys and adds no value.
  for (int t = 0; t < rows && !heads.sinks.empty(); ++t) {
    maximum[static_cast<std::size_t>(t)] = heads.sinks[static_cast<std::size_t>(head_of(t))];
    total[static_cast<std::size_t>(t * kLanes)] = 1.0F;
  }
  std::array<Range, kMaxTokens> visible;  // of the group's keys

  /// Rows [row, row + count) of sums += probabilities times values, over keys [first, last) of the group at `base`.
  const auto add_values = [&](int base, int row, int count, int first, int last) {
    for (int key = first; key < last;) {
      const int end = std::min(last, (key / kBlockTokens + 1) * kBlockTokens);
      const float* values = cache.value(block_at(base + key), tile.kv_head, key % kBlockTokens);
      for (int c = 0; c < chunks; c += kMaxTiles) {
        const int n = std::min(kMaxTiles, chunks - c);
        std::array<const float*, kMaxTiles> columns;
        for (int i = 0; i < n; ++i) columns[static_cast<std::size_t>(i)] = values + (c + i) * kLanes;
        simd_.product_f32({scores + row * kLanes, rows, count}, key, end, columns.data(), n, cache.value_stride(),
                          std::min(kLanes, dim - (c + n - 1) * kLanes), sums + (c * rows + row) * kLanes);
      }
      key = end;
    }
  };

  const Range all{sees(0).first, sees(rows - 1).last};
  for (int base = all.first / kGroupKeys * kGroupKeys; base < all.last; base += kGroupKeys) {
    // Scores of the blocks that any row sees; the others may not exist.
    const int first_block = std::max(0, all.first - base) / kBlockTokens;
    const int last_block = ceil_div(std::min(kGroupKeys, all.last - base), kBlockTokens);
    cache.score(simd_, {queries, rows, rows}, table.data() + base / kBlockTokens + first_block,
                last_block - first_block, tile.kv_head, scores + first_block * rows * kLanes);

    Range common{0, kGroupKeys};  // seen by all rows
    for (int t = 0; t < rows; ++t) {
      const Range range = sees(t);
      Range& seen = visible[static_cast<std::size_t>(t)];
      seen = {std::max(0, range.first - base), std::min(kGroupKeys, range.last - base)};
      common = {std::max(common.first, seen.first), std::min(common.last, seen.last)};
      if (seen.first >= seen.last) continue;
      const auto i = static_cast<std::size_t>(t);
      const float factor = simd_.softmax_step(scores + t * kLanes, rows, seen.first, seen.last, heads.scale, maximum[i],
                                              total.data() + t * kLanes);
      if (factor != 1.0F) simd_.scale_chunks(sums + t * kLanes, std::ptrdiff_t{rows} * kLanes, chunks, factor);
    }
    // Each row's keys in ascending order: those before the common ones, the common ones, those after.
    if (common.first >= common.last) common = {kGroupKeys, kGroupKeys};
    for (int t = 0; t < rows; ++t) {
      const Range& seen = visible[static_cast<std::size_t>(t)];
      add_values(base, t, 1, seen.first, std::min(seen.last, common.first));
    }
    add_values(base, 0, rows, common.first, common.last);
    for (int t = 0; t < rows; ++t) {
      const Range& seen = visible[static_cast<std::size_t>(t)];
      add_values(base, t, 1, std::max(seen.first, common.last), seen.last);
    }
  }

  for (int t = 0; t < rows; ++t) {
    float* from = sums + t * kLanes;
    float* to = out.row(sequence.first_row + query_of(t)) + head_of(t) * dim;
    const float sum = std::accumulate(total.begin() + t * kLanes, total.begin() + (t + 1) * kLanes, 0.0F);
    simd_.scale_chunks(from, std::ptrdiff_t{rows} * kLanes, chunks, 1.0F / sum);
    const int whole = dim / kLanes * kLanes;
    for (int d = 0; d < whole; d += kLanes, from += std::ptrdiff_t{rows} * kLanes)
      std::memcpy(to + d, from, kLaneBytes);
    std::copy_n(from, dim - whole, to + whole);
  }
}

}  // namespace colibri::cpu
