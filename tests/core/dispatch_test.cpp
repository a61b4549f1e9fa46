// SPDX-License-Identifier: Apache-2.0
// The dispatch table: every pair once, grouped by expert, ascending within a group.
#include "core/dispatch.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <random>
#include <vector>

namespace colibri {
namespace {

struct Table {
  std::vector<std::int32_t> offsets;
  std::vector<std::int32_t> pairs;
};

Table build(const std::vector<std::int32_t>& ids, int n_experts) {
  // Dirty memory: the builder must not rely on zeros.
  Table table{std::vector<std::int32_t>(static_cast<std::size_t>(n_experts) + 1, 77),
              std::vector<std::int32_t>(ids.size(), -1)};
  build_dispatch(ids, n_experts, table.offsets, table.pairs);
  return table;
}

void expect_grouped(const Table& table, const std::vector<std::int32_t>& ids) {
  ASSERT_EQ(table.offsets.front(), 0);
  ASSERT_EQ(table.offsets.back(), static_cast<std::int32_t>(ids.size()));
  std::vector<int> seen(ids.size(), 0);
  for (std::size_t e = 0; e + 1 < table.offsets.size(); ++e) {
    ASSERT_LE(table.offsets[e], table.offsets[e + 1]);
    for (auto i = static_cast<std::size_t>(table.offsets[e]); i < static_cast<std::size_t>(table.offsets[e + 1]); ++i) {
      const auto pair = static_cast<std::size_t>(table.pairs[i]);
      ASSERT_LT(pair, ids.size());
      ASSERT_EQ(ids[pair], static_cast<std::int32_t>(e));
      ++seen[pair];
      if (i == static_cast<std::size_t>(table.offsets[e])) continue;
      ASSERT_LT(table.pairs[i - 1], table.pairs[i]);
    }
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
}

TEST(Dispatch, GroupsAnyRouting) {
  std::mt19937 random(1);
  for (const int n_experts : {1, 2, 6, 60, 72, 160, 384, 512}) {
    for (const std::size_t pairs : {0UL, 1UL, 7UL, 1000UL}) {
      std::vector<std::int32_t> ids(pairs);
      for (auto& id : ids) id = static_cast<std::int32_t>(random() % static_cast<unsigned>(n_experts));
      expect_grouped(build(ids, n_experts), ids);
    }
  }
}

TEST(Dispatch, AllToTheFirstOrTheLastExpert) {
  for (const std::int32_t expert : {0, 4}) {
    const std::vector<std::int32_t> ids(33, expert);
    expect_grouped(build(ids, 5), ids);
  }
}

}  // namespace
}  // namespace colibri
