// SPDX-License-Identifier: Apache-2.0
// How much of everything a spec means, by arithmetic alone.
// Invariant: sums are exact while they are below 2^53; config.h refuses a spec with more parameters than that.
#pragma once

#include "core/spec.h"

namespace colibri {

/// Parameters; `active` counts those that one token reads (top_k of the routed experts, the whole embedding).
struct ParameterCount {
  double total = 0;
  double active = 0;
  double experts = 0;  // of the total, those of routed experts
};

ParameterCount layer_parameters(const ModelSpec& spec, const LayerSpec& layer);
ParameterCount model_parameters(const ModelSpec& spec);

/// Numbers that the KV cache holds for one token behind no window.
double kv_values_per_token(const ModelSpec& spec);

/// Floats that recurrent layers keep of one sequence, whatever its length.
double state_floats(const ModelSpec& spec);

}  // namespace colibri
