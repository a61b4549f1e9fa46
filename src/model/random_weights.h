// SPDX-License-Identifier: Apache-2.0
// Random weights of any shape, for benchmarks without a checkpoint.
// Invariant: a weight depends on the seed and its place alone, not on threads; padding stays 0; a matrix of n inputs
// has entries of root mean square near n^-0.5, so that activations keep their size from layer to layer.
#pragma once

#include <cstdint>

#include "model/read_weights.h"

namespace colibri {

/// Fills all matrices and records, and sets norms to 1. The memory is as allocate_weights left it.
void fill_random(ModelWeights& weights, std::uint64_t seed, int n_threads, const LoadProgress& progress);

}  // namespace colibri
