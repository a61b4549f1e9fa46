// SPDX-License-Identifier: Apache-2.0
// OLMoE: many small experts, and q and k normalised over all heads together.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_olmoe(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.norm_eps = 1e-5});
  set_attention_bias(config, spec);
  if (config.has("clip_qkv")) config.refuse("clip_qkv", "clipping of q, k and v is not supported");
  MoeFfn moe{.router = parse_router(config, spec, config.flag_or("norm_topk_prob", false))};
  moe.d_ff = config.integer("intermediate_size", 1, kMaxWidth);
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).qk_norm = QkNorm::full;
    layer.ffn = moe;
  }
  return spec;
}

}  // namespace colibri
