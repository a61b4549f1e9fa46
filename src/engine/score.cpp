// SPDX-License-Identifier: Apache-2.0
// The prompt goes through forward in chunks that keep the logits of one chunk in memory.
#include "engine/score.h"

#include <algorithm>
#include <string>
#include <vector>

#include "forward/forward.h"
#include "kv/pool.h"

namespace colibri {
namespace {

constexpr int kChunk = 128;  // rows of logits held at once

}  // namespace

Status score(Backend& backend, const Model& model, std::span<const std::int32_t> tokens,
             const std::function<bool(int position, std::span<const float> logits)>& row) {
  const ModelSpec& spec = model.spec;
  const int total = static_cast<int>(tokens.size());
  if (total == 0) return data_error("there are no tokens to score");
  if (total > spec.context)
    return data_error(std::to_string(total) + " tokens exceed the model's context of " + std::to_string(spec.context));
  for (const std::int32_t id : tokens)
    if (id < 0 || id >= spec.vocab)
      return data_error("token " + std::to_string(id) + " is outside 0.." + std::to_string(spec.vocab - 1));

  const int chunk = std::min(kChunk, total);
  TRY(pool, KvPool::create(spec, {.sequences = 1, .context = total, .max_chunk = chunk}, backend));
  TRY(scratch, Scratch::create(spec, chunk, chunk, backend));
  TRY_STATUS(backend.prepare(spec, {.rows = chunk, .sequences = 1, .logit_rows = chunk, .context = total}));
  const auto vocab = static_cast<std::size_t>(spec.vocab);
  TRY(memory, backend.allocate(static_cast<std::size_t>(chunk) * vocab * sizeof(float), "logits"));
  KvSequence kv;
  std::vector<std::span<const std::int32_t>> tables;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> rows;
  for (int start = 0; start < total; start += chunk) {
    const int count = std::min(chunk, total - start);
    positions.clear();
    rows.clear();
    for (int i = 0; i < count; ++i) {
      positions.push_back(start + i);
      rows.push_back(i);
    }
    pool.release_behind_window(kv, start);
    CHECK(pool.reserve(kv, start + count));
    kv.spans(tables);
    const SequenceRows sequence{0, count, start, tables};
    const Rows logits(reinterpret_cast<float*>(memory.data()), count, spec.vocab);
    forward(backend, model,
            {tokens.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(count)),
             positions,
             {&sequence, 1},
             rows},
            pool, scratch, logits);
    const Rows scores = backend.finish(logits);
    for (int i = 0; i < count; ++i)
      if (!row(start + i, {scores.row(i), vocab})) return {};
  }
  return {};
}

}  // namespace colibri
