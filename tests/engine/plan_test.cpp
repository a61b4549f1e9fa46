// SPDX-License-Identifier: Apache-2.0
// The plan of a step: decode rows always, prompts in order while there is room.
#include "engine/plan.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

std::vector<std::pair<int, int>> plan(std::vector<Progress> running, int max_rows, int max_chunk) {
  std::vector<std::pair<int, int>> result;
  for (const PlannedRows& planned : plan_step(running, max_rows, max_chunk))
    result.emplace_back(planned.sequence, planned.rows);
  return result;
}

using Pairs = std::vector<std::pair<int, int>>;

TEST(Plan, NothingRunsNothing) { EXPECT_EQ(plan({}, 8, 8), Pairs{}); }

TEST(Plan, DecodeRowsComeBeforePrompts) {
  EXPECT_EQ(plan({{100, 0}, {11, 10}, {21, 20}}, 10, 64), (Pairs{{0, 8}, {1, 1}, {2, 1}}));
}

TEST(Plan, PromptsShareWhatIsLeftInOrder) {
  EXPECT_EQ(plan({{40, 10}, {30, 0}, {30, 0}}, 50, 64), (Pairs{{0, 30}, {1, 20}}));
}

TEST(Plan, ChunksAreBounded) { EXPECT_EQ(plan({{1000, 0}, {1000, 0}}, 100, 64), (Pairs{{0, 64}, {1, 36}})); }

TEST(Plan, AFullHouseOfDecodesLeavesNoRoom) {
  EXPECT_EQ(plan({{2, 1}, {2, 1}, {9, 0}}, 2, 4), (Pairs{{0, 1}, {1, 1}}));
}

TEST(Plan, APromptOfOneTokenIsADecodeRow) { EXPECT_EQ(plan({{1, 0}}, 4, 4), (Pairs{{0, 1}})); }

}  // namespace
}  // namespace colibri
