// SPDX-License-Identifier: Apache-2.0
// Qwen3-MoE: Qwen3's attention over many small experts.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_qwen3_moe(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  set_attention_bias(config, spec);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qk_norm = QkNorm::per_head;
  set_windows(config, spec, [](int) { return true; });
  MoeFfn moe{.router = parse_router(config, spec, config.flag_or("norm_topk_prob", false))};
  moe.d_ff = config.integer("moe_intermediate_size", 1, kMaxWidth);
  set_sparse(config, spec, moe);
  return spec;
}

}  // namespace colibri
