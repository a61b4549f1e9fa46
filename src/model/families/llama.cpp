// SPDX-License-Identifier: Apache-2.0
// Llama and what is built like it: Mistral with a window on every layer; Mixtral, whose layers route over a few large
// experts and always normalise the chosen scores; OLMoE with many small ones, q and k normalised over all heads
// together; Phi-3.5-MoE with LayerNorm, a bias on the head, and the sparse mixer's two experts.
#include "model/families/families.h"

namespace colibri {
namespace {

constexpr TensorNames kMixtralNames{.router = "block_sparse_moe.gate",
                                    .experts = "block_sparse_moe.experts.",
                                    .expert_gate = "w1",
                                    .expert_up = "w3",
                                    .expert_down = "w2"};

/// As it was published before it had a name.
constexpr std::array kMixtralOthers{
    TensorNames{.experts = "mlp.experts.", .expert_gate = "w1", .expert_up = "w3", .expert_down = "w2"}};

ModelSpec parse_mixtral(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.rope_theta = 1e6, .norm_eps = 1e-5});
  set_window_everywhere(config, spec);
  const char* top_k = config.has("num_experts_per_token") ? "num_experts_per_token" : "num_experts_per_tok";
  MoeFfn moe{.router = parse_router(config, spec, true, {.top_k = top_k})};
  moe.d_ff = config.integer("intermediate_size", 1, kMaxWidth);
  for (LayerSpec& layer : spec.layers) layer.ffn = moe;
  return spec;
}

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

ModelSpec parse_olmoe(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.norm_eps = 1e-5});
  set_attention_bias(config, spec);
  if (config.has("clip_qkv")) config.refuse("clip_qkv", "clipping of q, k and v is not supported");
  MoeFfn moe{.router = parse_router(config, spec, config.flag("norm_topk_prob"))};
  moe.d_ff = config.integer("intermediate_size", 1, kMaxWidth);
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).qk_norm = QkNorm::full;
    layer.ffn = moe;
  }
  return spec;
}

ModelSpec parse_phimoe(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.rope_theta = 1e6, .norm_eps = 1e-5});
  spec.norm = NormKind::layer;
  spec.head_bias = config.flag("lm_head_bias");
  set_window_everywhere(config, spec);
  const bool bias = config.flag("attention_bias");

  MoeFfn moe{.router = parse_router(config, spec, false), .d_ff = config.integer("intermediate_size", 1, kMaxWidth)};
  moe.router.score = RouterScore::sparse_mixer;
  moe.router.jitter = static_cast<float>(config.real("router_jitter_noise", 0, 1));
  if (moe.router.top_k != 2) config.refuse("num_experts_per_tok", "the sparse mixer takes two experts");
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).qkv_bias = attention_of(layer).o_bias = bias;
    layer.ffn = moe;
  }
  return spec;
}

}  // namespace

const Family kLlama{"llama", parse_llama, ActiveTables::both, {}};
const Family kMistral{"mistral", parse_mistral, ActiveTables::both, {}, kMixtralOthers};
const Family kMixtral{"mixtral", parse_mixtral, ActiveTables::both, kMixtralNames};
const Family kOlmoe{"olmoe", parse_olmoe, ActiveTables::both, {}};
const Family kPhimoe{"phimoe", parse_phimoe, ActiveTables::both, kMixtralNames};

}  // namespace colibri
