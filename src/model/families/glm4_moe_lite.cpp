// SPDX-License-Identifier: Apache-2.0
// GLM-4.7-Flash: DeepSeek-V3's attention and router, with a list that says which layers are dense.
#include <algorithm>

#include "model/families/families.h"

namespace colibri {

ModelSpec parse_glm4_moe_lite(ConfigReader& config) {
  ModelSpec spec = parse_latent_base(config, {.norm_eps = 1e-5});
  const std::vector<std::string> types = config.texts("mlp_layer_types");
  if (types.empty()) {
    set_dense_first(config, spec, parse_corrected_router(config, spec));
    return spec;
  }
  if (types.size() != spec.layers.size()) config.refuse("mlp_layer_types", "its length differs from num_hidden_layers");
  const auto first_sparse = std::find_if(types.begin(), types.end(), [](const auto& type) { return type != "dense"; });
  if (std::any_of(first_sparse, types.end(), [](const auto& type) { return type != "sparse"; }))
    config.refuse("mlp_layer_types", "only \"dense\" and then \"sparse\" layers are supported");
  set_shared_moe(config, spec, parse_corrected_router(config, spec), static_cast<int>(first_sparse - types.begin()));
  return spec;
}

}  // namespace colibri
