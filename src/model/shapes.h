// SPDX-License-Identifier: Apache-2.0
// Published model shapes by name, for benchmarks with random weights.
// Invariant: a shape is a config.json that goes through the same family parsers as a checkpoint's.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "core/spec.h"

namespace colibri {

/// `layers` and `vocab` replace the published numbers where they are not 0. An unknown name is error 64 and lists all.
Result<ModelSpec> synthetic_shape(std::string_view name, int layers = 0, int vocab = 0);

/// "qwen3-30b-a3b, ...", for messages and help.
std::string synthetic_shape_names();

}  // namespace colibri
