// SPDX-License-Identifier: Apache-2.0
// Logits of every position of a given text, without sampling: for the commands that compare and measure quality.
// Invariant: rows come in order of position, each exactly once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "backend/backend.h"
#include "model/model.h"

namespace colibri {

/// Calls `row(position, logits)` for every position of `tokens` (all ids in [0, vocab), at most the model's context).
/// A false from `row` ends the pass early.
Status score(Backend& backend, const Model& model, std::span<const std::int32_t> tokens,
             const std::function<bool(int position, std::span<const float> logits)>& row);

}  // namespace colibri
