// SPDX-License-Identifier: Apache-2.0
// Which rows the next step computes: a pure function of counters.
// Invariant: a sequence with one token left to compute is never kept waiting by a prompt.
#pragma once

#include <span>
#include <vector>

namespace colibri {

/// Of one running sequence: 0 <= computed < known. known - computed == 1 is a decode row (or a prompt's last token).
struct Progress {
  int known = 0;     // tokens whose ids are known: the prompt and what was sampled
  int computed = 0;  // tokens whose keys and values are in the cache
};

struct PlannedRows {
  int sequence = 0;  // index into the span given to plan_step
  int rows = 0;      // the next ones after `computed`
};

/// Every sequence with one token left, then prompts in their order, each in chunks of at most max_chunk rows while the
/// step has room for max_rows in all. The result is in ascending order of sequence.
std::vector<PlannedRows> plan_step(std::span<const Progress> running, int max_rows, int max_chunk);

}  // namespace colibri
