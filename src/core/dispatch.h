// SPDX-License-Identifier: Apache-2.0
// The dispatch table: the (row, slot) pairs of a batch grouped by expert, ascending within each group.
// Invariant: pairs of expert e are pairs[offsets[e] .. offsets[e + 1]); a pair is row * top_k + slot, and every pair of
// the batch stands there once.
#pragma once

#include <cstdint>
#include <span>

namespace colibri {

/// Counting sort of the chosen experts. `ids` is [rows * top_k] in [0, n_experts), `offsets` [n_experts + 1],
/// `pairs` [rows * top_k].
void build_dispatch(std::span<const std::int32_t> ids, int n_experts, std::span<std::int32_t> offsets,
                    std::span<std::int32_t> pairs);

}  // namespace colibri
