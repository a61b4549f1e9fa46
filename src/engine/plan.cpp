// SPDX-License-Identifier: Apache-2.0
// Two passes over the running sequences: decode rows claim their room, then prompts share what is left.
#include "engine/plan.h"

#include <algorithm>

namespace colibri {

std::vector<PlannedRows> plan_step(std::span<const Progress> running, int max_rows, int max_chunk) {
  int room = max_rows;
  for (const Progress& progress : running)
    if (progress.known - progress.computed == 1) --room;
  std::vector<PlannedRows> plan;
  for (std::size_t i = 0; i < running.size(); ++i) {
    const int left = running[i].known - running[i].computed;
    const int rows = left == 1 ? 1 : std::min({left, max_chunk, std::max(room, 0)});
    if (left > 1) room -= rows;
    if (rows > 0) plan.push_back({static_cast<int>(i), rows});
  }
  return plan;
}

}  // namespace colibri
