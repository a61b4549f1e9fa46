// SPDX-License-Identifier: Apache-2.0
// Qwen3, dense: q and k normalised per head.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_qwen3(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.head_dim = 128});
  set_attention_bias(config, spec);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qk_norm = QkNorm::per_head;
  const int first = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  set_windows(config, spec, [&](int layer) { return layer >= first; });
  set_dense(config, spec);
  return spec;
}

}  // namespace colibri
