// SPDX-License-Identifier: Apache-2.0
// GLM-4.5 to 4.7: a rotation of part of each head, dense layers first, and DeepSeek-V3's router. GLM-4.7-Flash and
// GLM-5 have DeepSeek-V3's attention too, the latter to a choice of tokens.
#include <algorithm>

#include "model/families/families.h"

namespace colibri {
namespace {

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

ModelSpec parse_glm_moe_dsa(ConfigReader& config) {
  ModelSpec spec = parse_glm4_moe_lite(config);
  end_context_before_choice(config, spec);
  return spec;
}

constexpr TensorNames kGlmNames{.shared = "mlp.shared_experts."};
constexpr TensorNames kIndexedNames{.shared = "mlp.shared_experts.", .ignored_part = ".self_attn.indexer."};

}  // namespace

const Family kGlm4Moe{"glm4_moe", parse_glm4_moe, ActiveTables::none, kGlmNames};
const Family kGlm4MoeLite{"glm4_moe_lite", parse_glm4_moe_lite, ActiveTables::none, kGlmNames};
const Family kGlmMoeDsa{"glm_moe_dsa", parse_glm_moe_dsa, ActiveTables::head, kIndexedNames};

}  // namespace colibri
