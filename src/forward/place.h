// SPDX-License-Identifier: Apache-2.0
// Brings a loaded model to the memory that its backend works on.
// Invariant: afterwards only the backend's operations may read the weights.
#pragma once

#include "backend/backend.h"
#include "model/model.h"

namespace colibri {

/// Block by block, each one's host memory freed once it has been copied. Error 78 where the backend's memory is full.
Status place_weights(Backend& backend, Model& model);

/// random_weights() in the backend's memory: what is not on the host is made where it belongs.
Result<Model> place_random_weights(Backend& backend, const ModelSpec& spec, std::uint64_t seed,
                                   const LoadOptions& options);

}  // namespace colibri
