// SPDX-License-Identifier: Apache-2.0
// A model that is ready to run: what it is, how it samples, and its weights in memory.
// Invariant: after loading nothing refers to the files any more; they may be changed or removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/read_weights.h"
#include "model/weights.h"

namespace colibri {

struct LoadStats {
  double seconds = 0;
  std::uint64_t bytes = 0;  // of weights in memory
};

struct Model {
  ModelSpec spec;
  GenerationConfig generation;
  ModelWeights weights;
  std::vector<std::string> warnings;  // one line each
  LoadStats stats;
};

struct LoadOptions {
  LoadProgress progress;       // may be empty
  std::size_t ram_budget = 0;  // bytes; 0: what the system has available
  int threads = 0;             // 0: as many as help
};

/// Loads a checkpoint directory. Errors: 65 what is wrong inside, 66 missing, 74 reading, 78 more than the budget.
Result<Model> load_model(const std::string& directory, const LoadOptions& options = {});

/// A model of a shape with random bf16 weights, the same for the same seed; activations stay finite, norms are 1.
Result<Model> random_weights(const ModelSpec& spec, std::uint64_t seed, const LoadOptions& options = {});

}  // namespace colibri
