// SPDX-License-Identifier: Apache-2.0
// GLM-4.5 to 4.7: a rotation of part of each head, dense layers first, and DeepSeek-V3's router.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_glm4_moe(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  if (!config.has("partial_rotary_factor") && !config.object("rope_parameters").has("partial_rotary_factor"))
    config.refuse("partial_rotary_factor", "missing");
  const bool bias = config.flag("attention_bias");  // of q, k and v alone
  const QkNorm norm = config.flag("use_qk_norm") ? QkNorm::per_head : QkNorm::none;
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).qkv_bias = bias;
    attention_of(layer).qk_norm = norm;
  }
  set_dense_first(config, spec, parse_corrected_router(config, spec));
  return spec;
}

}  // namespace colibri
