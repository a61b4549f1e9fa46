// SPDX-License-Identifier: Apache-2.0
// DeepSeek and what is built like it: many small experts beside shared ones; from V2 on over latent attention, in V3.2
// to a choice of tokens. dots.llm1 has V3's router over attention with q and k normalised per head.
#include "model/families/families.h"

namespace colibri {
namespace {

constexpr double kMaxScale = 1e6;

void expect_groups(ConfigReader& config) {
  for (const char* key : {"n_group", "topk_group"})
    if (!config.has(key)) config.refuse(key, "missing");
}

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

constexpr TensorNames kDeepseekNames{.shared = "mlp.shared_experts."};
constexpr TensorNames kIndexedNames{.shared = "mlp.shared_experts.", .ignored_part = ".self_attn.indexer."};
constexpr std::array<std::string_view, 2> kKimiVision{"vision_tower.", "mm_projector."};
constexpr TensorNames kKimiNames{.embedding = "language_model.model.embed_tokens",
                                 .final_norm = "language_model.model.norm",
                                 .head = "language_model.lm_head",
                                 .layers = "language_model.model.layers.",
                                 .shared = "mlp.shared_experts.",
                                 .ignored_starts = kKimiVision};

}  // namespace

const Family kDeepseek{"deepseek", parse_deepseek, ActiveTables::both, kDeepseekNames};
const Family kDeepseekV2{"deepseek_v2", parse_deepseek_v2, ActiveTables::head, kDeepseekNames};
const Family kDeepseekV3{"deepseek_v3", parse_deepseek_v3, ActiveTables::head, kDeepseekNames};
const Family kDeepseekV32{"deepseek_v32", parse_deepseek_v32, ActiveTables::head, kIndexedNames};
const Family kJoyaiLlmFlash{"joyai_llm_flash", parse_deepseek_v3, ActiveTables::head, kDeepseekNames};
const Family kKimiK2{"kimi_k2", parse_deepseek_v3, ActiveTables::head, kDeepseekNames};
const Family kKimiK25{"kimi_k25", parse_deepseek_v3, ActiveTables::head, kKimiNames};
const Family kDots1{"dots1", parse_dots1, ActiveTables::both, kDeepseekNames};

}  // namespace colibri
