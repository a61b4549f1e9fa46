// SPDX-License-Identifier: Apache-2.0
// The MODEL argument of the command line: a directory, or ORG/NAME in the local Hugging Face cache.
// Invariant: nothing is downloaded; what is missing is error 66 with the command that fetches it.
#pragma once

#include <string>

#include "base/result.h"

namespace colibri {

/// The directory of a checkpoint, one that holds a config.json. A .gguf file is error 65.
Result<std::string> locate_model(const std::string& model);

/// The path of the config.json of a model; `model` may also be that file itself.
Result<std::string> locate_config(const std::string& model);

}  // namespace colibri
