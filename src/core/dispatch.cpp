// SPDX-License-Identifier: Apache-2.0
// A stable counting sort, so the table is the same whichever thread or machine builds it.
#include "core/dispatch.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace colibri {

void build_dispatch(std::span<const std::int32_t> ids, int n_experts, std::span<std::int32_t> offsets,
                    std::span<std::int32_t> pairs) {
  CHECK(offsets.size() == static_cast<std::size_t>(n_experts) + 1 && pairs.size() == ids.size());
  std::fill(offsets.begin(), offsets.end(), 0);
  for (const std::int32_t id : ids) {
    CHECK(id >= 0 && id < n_experts);
    ++offsets[static_cast<std::size_t>(id) + 1];
  }
  for (std::size_t e = 1; e < offsets.size(); ++e) offsets[e] += offsets[e - 1];
  // offsets[e] is now the start of group e; filling moves it to the start of e + 1, and one shift puts it back.
  for (std::size_t pair = 0; pair < ids.size(); ++pair) {
    const auto place = static_cast<std::size_t>(offsets[static_cast<std::size_t>(ids[pair])]++);
    pairs[place] = static_cast<std::int32_t>(pair);
  }
  for (std::size_t e = offsets.size() - 1; e > 0; --e) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

}  // namespace colibri
