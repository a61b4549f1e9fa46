// SPDX-License-Identifier: Apache-2.0
// DeepSeek and what is built like it: many small experts beside shared ones; from V2 on over latent attention, in V3.2
// and GLM-5 to a choice of tokens.
#include "model/families/families.h"

namespace colibri {
namespace {

constexpr double kMaxScale = 1e6;

void expect_groups(ConfigReader& config) {
  for (const char* key : {"n_group", "topk_group"})
    if (!config.has(key)) config.refuse(key, "missing");
}

/// An indexer picks index_topk tokens for each one's attention: while there are no more, all of them. Its choice is not
/// built, so the context ends there.
void end_context_before_choice(ConfigReader& config, ModelSpec& spec) {
  const int seen = config.integer("index_topk", 1, kMaxContext);
  if (spec.context <= seen) return;
  spec.context = seen;
  config.warn("index_topk", "the context ends at " + std::to_string(seen) +
                                " tokens: attention to a choice of the tokens before is not supported");
}

}  // namespace

ModelSpec parse_deepseek(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  set_attention_bias(config, spec);
  if (config.flag_or("mlp_bias", false)) config.refuse("mlp_bias", "biases in the MLP are not supported");
  if (!config.has("n_routed_experts")) {
    set_dense(config, spec);
    return spec;
  }
  config.expect("scoring_func", {"softmax"});
  set_dense_first(config, spec,
                  parse_router(config, spec, config.flag("norm_topk_prob"), {.n_experts = "n_routed_experts"}));
  return spec;
}

ModelSpec parse_deepseek_v2(ConfigReader& config) {
  ModelSpec spec = parse_latent_base(config);
  config.expect("scoring_func", {"softmax"});
  if (!config.flag_or("rope_interleave", true)) config.refuse("rope_interleave", "only true is supported here");
  // The published code normalises, transformers does not: no published checkpoint asks for it.
  if (config.flag_or("norm_topk_prob", false)) config.refuse("norm_topk_prob", "true is not supported");
  RouterSpec router = parse_router(config, spec, false, {.n_experts = "n_routed_experts"});
  router.scale = static_cast<float>(config.real("routed_scaling_factor", 0, kMaxScale));
  const std::string method = config.text_or("topk_method", "");
  if (method == "group_limited_greedy") {
    expect_groups(config);
    parse_groups(config, router);
    router.group_score = GroupScore::best;
  } else if (method != "greedy") {
    config.refuse("topk_method", "\"" + method.substr(0, 40) + "\" is neither greedy nor group_limited_greedy");
  }
  set_dense_first(config, spec, router);
  return spec;
}

ModelSpec parse_deepseek_v3(ConfigReader& config) {
  ModelSpec spec = parse_latent_base(config);
  expect_groups(config);
  set_dense_first(config, spec, parse_corrected_router(config, spec));
  return spec;
}

ModelSpec parse_deepseek_v32(ConfigReader& config) {
  ModelSpec spec = parse_deepseek_v3(config);
  end_context_before_choice(config, spec);
  return spec;
}

ModelSpec parse_glm_moe_dsa(ConfigReader& config) {
  ModelSpec spec = parse_glm4_moe_lite(config);
  end_context_before_choice(config, spec);
  return spec;
}

}  // namespace colibri
