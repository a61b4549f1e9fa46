// SPDX-License-Identifier: Apache-2.0
// dots.llm1: Qwen3's attention, dense layers first, and DeepSeek-V3's router.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_dots1(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  set_attention_bias(config, spec);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qk_norm = QkNorm::per_head;
  // Without layer_types a sliding_window holds from layer max_window_layers on.
  const int first = config.integer_or("max_window_layers", 62, 0, kMaxLayers);
  const int window = config.integer_or("sliding_window", 0, 1, kMaxContext);
  set_windows(config, spec, window, [&](int layer) { return layer >= first; });
  set_dense_first(config, spec, parse_corrected_router(config, spec));
  return spec;
}

}  // namespace colibri
