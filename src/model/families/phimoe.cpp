// SPDX-License-Identifier: Apache-2.0
// Phi-3.5-MoE: LayerNorm, a bias on the head, and the sparse mixer's two experts.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_phimoe(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.rope_theta = 1e6, .norm_eps = 1e-5});
  spec.norm = NormKind::layer;
  spec.head_bias = config.flag("lm_head_bias");
  set_window_everywhere(config, spec);
  const bool bias = config.flag("attention_bias");

  MoeFfn moe{.router = parse_router(config, spec, false), .d_ff = config.integer("intermediate_size", 1, kMaxWidth)};
  moe.router.score = RouterScore::sparse_mixer;
  moe.router.jitter = static_cast<float>(config.real("router_jitter_noise", 0, 1));
  if (moe.router.top_k != 2) config.refuse("num_experts_per_tok", "the sparse mixer takes two experts");
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).qkv_bias = attention_of(layer).o_bias = bias;
    layer.ffn = moe;
  }
  return spec;
}

}  // namespace colibri
