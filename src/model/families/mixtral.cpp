// SPDX-License-Identifier: Apache-2.0
// Mixtral: every layer routes over a few large experts; the chosen scores are always normalised.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_mixtral(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.rope_theta = 1e6, .norm_eps = 1e-5});
  set_window_everywhere(config, spec);
  const char* top_k = config.has("num_experts_per_token") ? "num_experts_per_token" : "num_experts_per_tok";
  MoeFfn moe{.router = parse_router(config, spec, true, {.top_k = top_k})};
  moe.d_ff = config.integer("intermediate_size", 1, kMaxWidth);
  for (LayerSpec& layer : spec.layers) layer.ffn = moe;
  return spec;
}

}  // namespace colibri
