// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V2 and V3 and what is built like them: latent attention over many small experts beside shared ones.
#include "model/families/families.h"

namespace colibri {
namespace {

constexpr double kMaxScale = 1e6;

/// Files that name the router's kind must name the one that the family has.
void expect_kind(ConfigReader& config, const char* key, const std::string& only) {
  if (const std::string kind = config.text_or(key, only); kind != only)
    config.refuse(key, "\"" + kind.substr(0, 40) + "\" is not supported here, only " + only);
}

void expect_groups(ConfigReader& config) {
  for (const char* key : {"n_group", "topk_group"})
    if (!config.has(key)) config.refuse(key, "missing");
}

}  // namespace

ModelSpec parse_deepseek_v2(ConfigReader& config) {
  ModelSpec spec = parse_latent_base(config);
  expect_kind(config, "scoring_func", "softmax");
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
  expect_kind(config, "scoring_func", "sigmoid");
  expect_kind(config, "topk_method", "noaux_tc");
  expect_groups(config);
  set_dense_first(config, spec, parse_corrected_router(config, spec));
  return spec;
}

}  // namespace colibri
