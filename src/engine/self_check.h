// SPDX-License-Identifier: Apache-2.0
// Whether a backend computes what the reference computes, found out before anything is served: a GPU whose code does
// not fit it fails in silence, with zeros.
#pragma once

#include "backend/backend.h"

namespace colibri {

/// Small random models that together use every operation, prompts of one to many tokens. Error 86 names the model
/// and the distance where logits are not the reference's.
Status self_check(Backend& backend);

}  // namespace colibri
