// SPDX-License-Identifier: Apache-2.0
// Llama and Mistral: the plain dense transformer; Mistral with a window on every layer.
#include "model/families/families.h"

namespace colibri {

ModelSpec parse_llama(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  set_attention_bias(config, spec);
  if (config.flag_or("mlp_bias", false)) config.refuse("mlp_bias", "biases in the MLP are not supported");
  set_dense(config, spec);
  return spec;
}

ModelSpec parse_mistral(ConfigReader& config) {
  if (config.has("num_experts")) return parse_mixtral(config);  // as it was published before it had a name
  ModelSpec spec = parse_base(config);
  set_window_everywhere(config, spec);
  set_dense(config, spec);
  return spec;
}

}  // namespace colibri
