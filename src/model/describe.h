// SPDX-License-Identifier: Apache-2.0
// What `inspect` shows: a model's shape and sizes, from config.json and, where there are any, the shards' headers.
// Invariant: no tensor data is read.
#pragma once

#include <string>

#include "base/json.h"
#include "model/checkpoint.h"
#include "model/config.h"

namespace colibri {

/// `checkpoint` may be nullptr: then bytes are those of the same model stored in bf16.
Json describe_model(const ModelConfig& config, const Checkpoint* checkpoint);

/// The same for people; `description` came from describe_model.
std::string describe_text(const Json& description);

/// A model directory, ORG/NAME or config.json, as the command line gives it.
Result<Json> inspect_model(const std::string& model);

}  // namespace colibri
