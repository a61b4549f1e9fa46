// SPDX-License-Identifier: Apache-2.0
// Rotary embedding of queries and keys, and the way of keys and values, or of latents, into the cache.
// Invariant: the angle is the fp32 product of position and frequency, as in Hugging Face; its cosine and sine are the
// rounded ones of that product, computed once a step and kept for its other layers.
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cpu/cpu.h"
#include "base/check.h"

namespace colibri::cpu {

void CpuBackend::prepare_rope(const RopeSpec& rope, std::span<const std::int32_t> positions) {
  if (rope.dim == rope_spec_.dim && rope.scale == rope_spec_.scale && rope.inv_freq == rope_spec_.inv_freq &&
      std::equal(positions.begin(), positions.end(), rope_positions_.begin(), rope_positions_.end())) {
    return;
  }
  rope_spec_ = rope;
  rope_positions_.assign(positions.begin(), positions.end());
  const auto half = rope.inv_freq.size();
  rope_table_.resize(positions.size() * 2 * half);
  for_rows(static_cast<int>(positions.size()), 64 * half, [&](int first, int last) {
    for (int r = first; r < last; ++r) {
      float* cos_sin = rope_table_.data() + static_cast<std::size_t>(r) * 2 * half;
      const auto position = static_cast<float>(positions[static_cast<std::size_t>(r)]);
      for (std::size_t i = 0; i < half; ++i) {
        const double angle = position * rope.inv_freq[i];
        cos_sin[i] = static_cast<float>(std::cos(angle)) * rope.scale;
        cos_sin[half + i] = static_cast<float>(std::sin(angle)) * rope.scale;
      }
    }
  });
}

void CpuBackend::turn(float* head, const RopeSpec& rope, const float* cos_sin) const {
  const int half = rope.dim / 2;
  if (rope.pairs == RopePairs::halves) return simd_.rotate(head, cos_sin, cos_sin + half, half);
  for (int first = 0; first < half; first += kLanes) {
    const int n = std::min(kLanes, half - first);
    float* pairs = head + std::ptrdiff_t{2} * first;
    std::array<float, 2 * kLanes> apart;
    for (int i = 0; i < 2 * n; ++i) apart[static_cast<std::size_t>(i / 2 + i % 2 * n)] = pairs[i];
    simd_.rotate(apart.data(), cos_sin + first, cos_sin + half + first, n);
    for (int i = 0; i < 2 * n; ++i) pairs[i] = apart[static_cast<std::size_t>(i / 2 + i % 2 * n)];
  }
}

void CpuBackend::turn_heads(float* row, int heads, const AttentionSpec& spec, std::span<const float> norm, float eps,
                            const float* cos_sin) const {
  if (spec.qk_norm == QkNorm::full) norm_row(row, norm, eps, row);
  for (int h = 0; h < heads; ++h) {
    float* head = row + std::ptrdiff_t{h} * spec.head_dim;
    if (spec.qk_norm == QkNorm::per_head) norm_row(head, norm, eps, head);
    turn(head, spec.rope, cos_sin);
    if (spec.qk_norm == QkNorm::per_head_turned) norm_row(head, norm, eps, head);
  }
}

void CpuBackend::rope_and_store(Rows q, Rows k, ConstRows v, const AttentionSpec& spec, std::span<const float> q_norm,
                                std::span<const float> k_norm, float eps, const Batch& batch, const KvView& kv) {
  const int dim = spec.head_dim;
  const int half = spec.rope.dim / 2;
  CHECK(q.rows == batch.rows() && k.rows == q.rows && v.rows == q.rows);
  CHECK(q.cols == spec.n_heads * dim && k.cols == spec.n_kv_heads * dim && v.cols == k.cols);
  CHECK(kv.head_dim == dim && kv.n_kv_heads == spec.n_kv_heads);
  CHECK(2 * half <= dim && static_cast<int>(spec.rope.inv_freq.size()) == half);
  const auto norm_size = [&](int heads) {
    return static_cast<std::size_t>(spec.qk_norm == QkNorm::none   ? 0
                                    : spec.qk_norm == QkNorm::full ? heads * dim
                                                                   : dim);
  };
  CHECK(q_norm.size() == norm_size(spec.n_heads) && k_norm.size() == norm_size(spec.n_kv_heads));
  prepare_rope(spec.rope, batch.positions);

  const auto store = [&](int r, const SequenceRows& sequence) {
    const float* cos_sin = rope_table_.data() + static_cast<std::ptrdiff_t>(r) * 2 * half;
    turn_heads(q.row(r), spec.n_heads, spec, q_norm, eps, cos_sin);
    turn_heads(k.row(r), spec.n_kv_heads, spec, k_norm, eps, cos_sin);
    const int position = sequence.position + r - sequence.first_row;
    const auto table = sequence.tables[static_cast<std::size_t>(spec.kv_group)];
    const std::int32_t block = table[static_cast<std::size_t>(position / kBlockTokens)];
    const int slot = position % kBlockTokens;
    for (int h = 0; h < spec.n_kv_heads; ++h) {
      const float* key = k.row(r) + std::ptrdiff_t{h} * dim;
      float* keys = kv.keys(block, h) + slot;
      for (int d = 0; d < dim; ++d) keys[d * kBlockTokens] = key[d];
      std::copy_n(v.row(r) + std::ptrdiff_t{h} * dim, dim, kv.values(block, h) + std::ptrdiff_t{slot} * dim);
    }
  };
  // Sixteen rows at a time: the keys of a block share cache lines, and threads should not.
  const auto work = static_cast<std::size_t>(kBlockTokens * (q.cols + 4 * k.cols));
  for_rows(ceil_div(q.rows, kBlockTokens), work, [&](int first, int last) {
    for (const SequenceRows& sequence : batch.sequences) {
      const int end = std::min(last * kBlockTokens, sequence.first_row + sequence.rows);
      for (int r = std::max(first * kBlockTokens, sequence.first_row); r < end; ++r) store(r, sequence);
    }
  });
}

void CpuBackend::latent_rope_and_store(ConstRows q, ConstRows latents, const LatentAttentionSpec& spec,
                                       std::span<const float> kv_norm, const Batch& batch, const LatentView& cache,
                                       Rows queries) {
  const int dim = spec.rope_dim;
  const int half = dim / 2;
  CHECK(q.rows == batch.rows() && latents.rows == q.rows && queries.rows == q.rows);
  CHECK(q.cols == spec.n_heads * spec.q_dim() && queries.cols == spec.n_heads * spec.cached());
  CHECK(latents.cols == spec.cached() && cache.dim == spec.cached());
  CHECK(static_cast<int>(kv_norm.size()) == spec.kv_rank);
  CHECK(spec.rope.dim == dim && static_cast<int>(spec.rope.inv_freq.size()) == half && 2 * half == dim);
  prepare_rope(spec.rope, batch.positions);

  const auto turn = [&](const float* from, const float* cos_sin, float* to) {
    if (spec.rope.pairs == RopePairs::halves) {
      std::copy_n(from, dim, to);
    } else {
      for (int i = 0; i < half; ++i) {
        to[i] = from[2 * i];
        to[half + i] = from[2 * i + 1];
      }
    }
    simd_.rotate(to, cos_sin, cos_sin + half, half);
  };
  const auto store = [&](int r, const SequenceRows& sequence) {
    const float* cos_sin = rope_table_.data() + static_cast<std::ptrdiff_t>(r) * 2 * half;
    const int position = sequence.position + r - sequence.first_row;
    const auto table = sequence.tables[static_cast<std::size_t>(spec.kv_group)];
    float* cached = cache.row(table[static_cast<std::size_t>(position / kBlockTokens)], position % kBlockTokens);
    norm_row(latents.row(r), kv_norm, spec.norm_eps, cached);
    turn(latents.row(r) + spec.kv_rank, cos_sin, cached + spec.kv_rank);
    for (int h = 0; h < spec.n_heads; ++h) {
      turn(q.row(r) + std::ptrdiff_t{h} * spec.q_dim() + spec.nope_dim, cos_sin,
           queries.row(r) + std::ptrdiff_t{h} * spec.cached() + spec.kv_rank);
    }
  };
  for_rows(q.rows, static_cast<std::size_t>(spec.n_heads * dim + 4 * spec.cached()), [&](int first, int last) {
    for (const SequenceRows& sequence : batch.sequences) {
      const int end = std::min(last, sequence.first_row + sequence.rows);
      for (int r = std::max(first, sequence.first_row); r < end; ++r) store(r, sequence);
    }
  });
}

}  // namespace colibri::cpu
