// SPDX-License-Identifier: Apache-2.0
// What one step computes: rows of tokens from several sequences, prompt chunks and generated tokens alike.
// Invariant: the rows of a sequence are consecutive and so are their positions; its block tables already hold a block
// for every position up to its last row. What a row yields never depends on the other sequences in the batch.
#pragma once

#include <cstdint>
#include <span>

namespace colibri {

struct SequenceRows {
  int first_row = 0;
  int rows = 0;
  int position = 0;  // of first_row; the sequence's tokens before it are in the cache
  /// tables[g][p / 16] is the block of group g that holds position p; -1 where the window has passed. Of a state group:
  /// its only entry is the sequence's slot.
  std::span<const std::span<const std::int32_t>> tables;

  std::int32_t slot(int group) const { return tables[static_cast<std::size_t>(group)][0]; }
};

struct Batch {
  std::span<const std::int32_t> tokens;      // [rows]
  std::span<const std::int32_t> positions;   // [rows]
  std::span<const SequenceRows> sequences;   // in order of first_row, covering all rows
  std::span<const std::int32_t> logit_rows;  // rows whose logits are wanted, ascending

  int rows() const { return static_cast<int>(tokens.size()); }
};

}  // namespace colibri
