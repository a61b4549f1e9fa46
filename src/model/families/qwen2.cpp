// SPDX-License-Identifier: Apache-2.0
// Qwen2 and Qwen2.5, dense: biases on q, k and v.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_qwen2(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qkv_bias = true;
  const int first = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  set_windows(config, spec, [&](int layer) { return layer >= first; });
  set_dense(config, spec);
  return spec;
}

}  // namespace colibri
