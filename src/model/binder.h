// SPDX-License-Identifier: Apache-2.0
// Which stored tensor goes where: the spec says what must exist, the family how it is called.
// Invariant: a checked checkpoint has every tensor that the spec requires, in the right shape and a loadable type, and
// none that nobody claims.
#pragma once

#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/families.h"
#include "model/weights.h"

namespace colibri {

/// One stored tensor and its place: either rows of a matrix, or a vector of floats.
struct Binding {
  std::string name;
  int rows = 0;
  int cols = 0;                // 0: a vector of `rows`
  std::byte* tiles = nullptr;  // of the whole matrix that it becomes a part of
  int first_row = 0;           // in that matrix
  float* values = nullptr;     // of a vector
};

/// Every tensor of the model. The places point into `weights`.
std::vector<Binding> bind_tensors(const ModelSpec& spec, const TensorNames& names, ModelWeights& weights);

/// Error 65 with the first name and the count of what is missing, misshapen or unclaimed.
Status check_tensors(const std::vector<Binding>& bindings, const Checkpoint& checkpoint, const ModelSpec& spec,
                     const TensorNames& names);

}  // namespace colibri
