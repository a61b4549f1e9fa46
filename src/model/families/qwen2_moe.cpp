// SPDX-License-Identifier: Apache-2.0
// Qwen1.5-MoE and Qwen2-MoE: routed experts beside one shared expert behind a sigmoid gate.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_qwen2_moe(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  const bool bias = config.flag_or("qkv_bias", true);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qkv_bias = bias;
  // Without layer_types the oracle gives a window to every second layer of the first max_window_layers.
  const int last = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  set_windows(config, spec, [&](int layer) { return layer % 2 == 0 && layer < last; });
  MoeFfn moe{.router = parse_router(config, spec, config.flag_or("norm_topk_prob", false)), .shared_gate = true};
  moe.d_ff = config.integer("moe_intermediate_size", 1, kMaxWidth);
  moe.shared_d_ff = config.integer("shared_expert_intermediate_size", 1, kMaxWidth);
  set_sparse(config, spec, moe);
  return spec;
}

}  // namespace colibri
