// SPDX-License-Identifier: Apache-2.0
// Moves tensor data from the shards to its place.
// Invariant: memory beyond the weights is one bounded buffer per thread, whatever the tensors' sizes; what a place
// holds in the end does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/binder.h"

namespace colibri {

/// Called from the loading thread with bytes read so far and in all.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// `bindings` have been checked and `encodings` come from there (check_tensors). Error 65 where a weight is NaN or
/// infinite, 74 where a read fails. Returns a warning where matrices were rounded or decoded to bf16, else "".
Result<std::string> read_weights(const Checkpoint& checkpoint, const std::vector<Binding>& bindings,
                                 const Encodings& encodings, int n_threads, const LoadProgress& progress);

}  // namespace colibri
