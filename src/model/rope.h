// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings of a config.json, in both dialects: rope_theta with rope_scaling, and rope_parameters.
// Invariant: the frequencies are those that Hugging Face transformers computes for the same file (its
// ROPE_INIT_FUNCTIONS); a kind it does not list here is refused, never approximated.
#pragma once

#include "core/spec.h"
#include "model/config_reader.h"

namespace colibri {

/// Kinds: default, dynamic, linear, llama3, longrope, yarn. `default_theta` is the family's where the file gives none.
/// `context` is lowered where the rotations hold for less: longrope turns the keys of a text that outgrows the original
/// context by other angles, all of them, and cached keys cannot be turned again. Those are RopeSpec::beyond.
RopeSpec parse_rope(ConfigReader& config, int head_dim, int& context, double default_theta);

/// Where `context` is more than the model's, and all layers have rotations for that, these become the model's, with
/// their context.
void lengthen(ModelSpec& spec, int context);

/// What DeepSeek multiplies attention's scores by beside their scale: the square of yarn's attention factor for
/// mscale_all_dim, where the file has that key; else 1.
double parse_score_factor(ConfigReader& config);

}  // namespace colibri
