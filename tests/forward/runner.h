// SPDX-License-Identifier: Apache-2.0
// Runs conversations through forward() as the engine would, and says how far logits may be from an oracle's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "forward/forward.h"
#include "model/model.h"

namespace colibri {

using Ids = std::vector<std::int32_t>;

/// Some conversations in one batch.
class Runner {
 public:
  Runner(const Model& model, Backend& backend, std::size_t conversations = 1)
      : model_(model),
        backend_(backend),
        pool_(*KvPool::create(
            model.spec, {.sequences = static_cast<int>(conversations), .context = kRows, .max_chunk = kRows}, backend)),
        scratch_(*Scratch::create(model.spec, kRows, kRows, backend)),
        logits_(*backend.allocate(
            static_cast<std::size_t>(kRows) * static_cast<std::size_t>(model.spec.vocab) * sizeof(float), "logits")),
        kv_(conversations),
        positions_(conversations) {
    const int sequences = static_cast<int>(conversations);
    EXPECT_TRUE(
        backend.prepare(model.spec, {.rows = kRows, .sequences = sequences, .logit_rows = kRows, .context = kRows})
            .ok());
    capture_decode(backend, model, pool_, scratch_, logits_of(sequences));
  }

  /// One step: the next tokens of each conversation; returns the logits of every row of each.
  std::vector<std::vector<float>> run(const std::vector<Ids>& next) {
    Ids tokens;
    Ids positions;
    Ids rows;
    std::vector<SequenceRows> sequences;
    std::vector<std::vector<std::span<const std::int32_t>>> tables(next.size());
    for (std::size_t i = 0; i < next.size(); ++i) {
      if (next[i].empty()) continue;
      const int count = static_cast<int>(next[i].size());
      pool_.release_behind_window(kv_[i], positions_[i]);
      EXPECT_TRUE(pool_.reserve(kv_[i], positions_[i] + count));
      kv_[i].spans(tables[i]);
      sequences.push_back({static_cast<int>(tokens.size()), count, positions_[i], tables[i]});
      for (const std::int32_t token : next[i]) {
        rows.push_back(static_cast<int>(tokens.size()));
        tokens.push_back(token);
        positions.push_back(positions_[i]++);
      }
    }
    const auto vocab = static_cast<std::size_t>(model_.spec.vocab);
    const Rows logits = logits_of(static_cast<int>(tokens.size()));
    forward(backend_, model_, {tokens, positions, sequences, rows}, pool_, scratch_, logits);
    std::vector<std::vector<float>> each(next.size());
    const float* from = backend_.finish(logits).data;
    for (std::size_t i = 0; i < next.size(); ++i) {
      const float* to = from + next[i].size() * vocab;
      each[i].assign(from, to);
      from = to;
    }
    return each;
  }

 private:
  static constexpr int kRows = 512;

  Rows logits_of(int rows) const { return {reinterpret_cast<float*>(logits_.data()), rows, model_.spec.vocab}; }

  const Model& model_;
  Backend& backend_;
  KvPool pool_;
  Scratch scratch_;
  Buffer logits_;
  std::vector<KvSequence> kv_;
  std::vector<int> positions_;
};

/// Logits of every row of each prompt, computed side by side, in steps of chunk tokens.
inline std::vector<std::vector<float>> in_chunks(const Model& model, Backend& backend, const std::vector<Ids>& prompts,
                                                 const std::vector<std::size_t>& chunks) {
  Runner runner(model, backend, prompts.size());
  std::vector<std::vector<float>> logits(prompts.size());
  std::vector<std::size_t> done(prompts.size());
  for (bool more = true; more;) {
    std::vector<Ids> next(prompts.size());
    more = false;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const std::size_t end = std::min(done[i] + chunks[i], prompts[i].size());
      next[i].assign(prompts[i].begin() + static_cast<std::ptrdiff_t>(done[i]),
                     prompts[i].begin() + static_cast<std::ptrdiff_t>(end));
      done[i] = end;
      more = more || !next[i].empty();
    }
    if (!more) break;
    const auto step = runner.run(next);
    for (std::size_t i = 0; i < prompts.size(); ++i) logits[i].insert(logits[i].end(), step[i].begin(), step[i].end());
  }
  return logits;
}

/// Rounding of an fp32 forward pass, norm-wise: about ten operations a layer, each rounding K times on its way to a
/// residual stream of the logits' size. Independent roundings add in squares; both sides of the comparison round.
inline float tolerance(const ModelSpec& spec, float largest) {
  constexpr float kUnit = 0x1p-24F;
  const float roundings = 10.0F * static_cast<float>(spec.layers.size() + 1) * static_cast<float>(2 * spec.d_model);
  return 2.0F * kUnit * std::sqrt(roundings) * std::max(largest, 1.0F);
}

/// ||logits - wanted|| / ||wanted||, of the last rows of `logits`.
inline double relative_error(std::span<const float> logits, std::span<const float> wanted) {
  const auto last = logits.last(wanted.size());
  double off = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    off += std::pow(static_cast<double>(last[i]) - static_cast<double>(wanted[i]), 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(off / norm);
}

}  // namespace colibri
