// SPDX-License-Identifier: Apache-2.0
// Random weights of any shape, for benchmarks without a checkpoint.
// Invariant: a weight depends on the seed and its place alone, not on threads; see core/random_bits.h.
#pragma once

#include <cstdint>
#include <vector>

#include "model/read_weights.h"

namespace colibri {

/// Some rows of tiles of a matrix, and the seed of random_bits::fill.
struct RandomPart {
  Matrix matrix;
  std::uint64_t seed = 0;
};

/// All matrices, cut so that threads share the largest ones too. The records are found through host memory.
std::vector<RandomPart> random_parts(const ModelWeights& weights, std::uint64_t seed);

/// Norms are 1 and convolutions averages; all other vectors are 0.
void set_random_vectors(ModelWeights& weights);

/// Fills all matrices and records, and sets norms to 1. The memory is as allocate_weights left it.
void fill_random(ModelWeights& weights, std::uint64_t seed, int n_threads, const LoadProgress& progress);

}  // namespace colibri
