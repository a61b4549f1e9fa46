// SPDX-License-Identifier: Apache-2.0
// A half-open range of byte offsets into a text. Lists of them are sorted and disjoint.
#pragma once

#include <cstddef>

namespace colibri {

struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace colibri
