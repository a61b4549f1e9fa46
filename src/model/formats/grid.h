// SPDX-License-Identifier: Apache-2.0
// Reads rows of a Grid, in whatever order and packing they are stored.
// Invariant: what is read and written is bounded by the rows asked for; the tensor's shape has been checked.
#pragma once

#include "model/formats/encoding.h"

namespace colibri {

/// Numbers that one stored element holds.
int numbers_per_element(const Grid& grid);

/// Rows [first, first + count) as codes [count, cols].
Status read_codes(const Grid& grid, std::int64_t first, std::int64_t count, std::vector<std::byte>& raw,
                  std::vector<std::uint8_t>& codes);

/// Rows [first, first + count) as numbers [count, cols]; U8 is a power of two.
Status read_floats(const Grid& grid, std::int64_t first, std::int64_t count, std::vector<std::byte>& raw,
                   std::vector<float>& numbers);

}  // namespace colibri
