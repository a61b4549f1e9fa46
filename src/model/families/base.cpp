// SPDX-License-Identifier: Apache-2.0
// The reads that families share. Keys and defaults are those of Hugging Face configurations.
#include <algorithm>
#include <cmath>

#include "model/families/families.h"
#include "model/rope.h"

namespace colibri {
namespace {

constexpr double kMaxScale = 1e6;

/// Lowers the context to what the rotations hold for.
AttentionSpec parse_attention(ConfigReader& config, ModelSpec& spec, const Defaults& defaults) {
  AttentionSpec attention;
  attention.n_heads = config.integer("num_attention_heads", 1, kMaxHeads);
  attention.n_kv_heads = config.integer_or("num_key_value_heads", attention.n_heads, 1, kMaxHeads);
  if (attention.n_heads % attention.n_kv_heads != 0)
    config.refuse("num_key_value_heads", "does not divide num_attention_heads");
  const bool derived = !config.has("head_dim") && defaults.head_dim == 0;
  if (derived && spec.d_model % attention.n_heads != 0)
    config.refuse("hidden_size", "not a multiple of num_attention_heads");
  const int fallback = derived ? spec.d_model / attention.n_heads : defaults.head_dim;
  attention.head_dim = config.integer_or("head_dim", fallback, 2, kMaxHeadDim);
  if (attention.n_heads * attention.head_dim > kMaxWidth)
    config.refuse("head_dim", "num_attention_heads * head_dim is over " + std::to_string(kMaxWidth));
  attention.scale = static_cast<float>(1.0 / std::sqrt(attention.head_dim));
  attention.rope = parse_rope(config, attention.head_dim, spec.context, defaults.rope_theta);
  return attention;
}

}  // namespace

ModelSpec parse_sizes(ConfigReader& config, const Defaults& defaults) {
  ModelSpec spec;
  spec.vocab = config.integer("vocab_size", 1, kMaxVocab);
  spec.d_model = config.integer("hidden_size", 1, kMaxWidth);
  spec.context = config.integer("max_position_embeddings", 1, kMaxContext);
  spec.norm_eps = static_cast<float>(config.real_assumed(defaults.norm_eps_key, defaults.norm_eps, 0, 1));
  spec.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  spec.n_draft_layers = config.integer_or("num_nextn_predict_layers", 0, 0, kMaxLayers);
  const int n_layers = config.integer("num_hidden_layers", 1, kMaxLayers);
  config.expect("hidden_act", {"silu"});
  if (!config.failed()) spec.layers.resize(static_cast<std::size_t>(n_layers));
  return spec;
}

ModelSpec parse_base(ConfigReader& config, const Defaults& defaults) {
  ModelSpec spec = parse_sizes(config, defaults);
  const AttentionSpec attention = parse_attention(config, spec, defaults);
  for (LayerSpec& layer : spec.layers) layer.mixer = attention;
  return spec;
}

void set_dense(ConfigReader& config, ModelSpec& spec) {
  for (const char* key : {"num_experts", "num_local_experts"})
    if (config.has(key)) config.refuse(key, "this model_type has no experts");
  const int d_ff = config.integer("intermediate_size", 1, kMaxWidth);
  for (LayerSpec& layer : spec.layers) layer.ffn = DenseFfn{d_ff};
}

RouterSpec parse_router(ConfigReader& config, const ModelSpec& spec, bool norm_topk, const RouterKeys& keys) {
  const char* key = keys.n_experts != nullptr         ? keys.n_experts
                    : config.has("num_local_experts") ? "num_local_experts"
                                                      : "num_experts";
  RouterSpec router;
  router.n_experts = config.integer_alike(key, 1, kMaxExperts);
  router.top_k = config.integer_alike(keys.top_k, 1, std::min(router.n_experts, kMaxTopK));
  router.norm_topk = norm_topk;
  // A bound on the work that a small file can cause: ten times the experts of the largest published model.
  constexpr std::size_t kMaxExpertsTotal = std::size_t{1} << 18;
  if (spec.layers.size() * static_cast<std::size_t>(router.n_experts) > kMaxExpertsTotal)
    config.refuse(key, "more than " + std::to_string(kMaxExpertsTotal) + " experts in all layers");
  return router;
}

void parse_groups(ConfigReader& config, RouterSpec& router) {
  router.n_groups = config.integer_or("n_group", 1, 1, std::min(router.n_experts, kMaxExpertGroups));
  router.top_groups = config.integer_or("topk_group", router.n_groups, 1, router.n_groups);
  const int size = router.n_experts / router.n_groups;
  if (router.n_experts % router.n_groups != 0) config.refuse("n_group", "does not divide n_routed_experts");
  if (router.n_groups > 1 && size < 2) config.refuse("n_group", "leaves groups of one expert");
  if (router.top_groups * size < router.top_k) config.refuse("topk_group", "leaves fewer than num_experts_per_tok");
}

RouterSpec parse_corrected_router(ConfigReader& config, const ModelSpec& spec) {
  RouterSpec router = parse_router(config, spec, config.flag("norm_topk_prob"), {.n_experts = "n_routed_experts"});
  config.expect("scoring_func", {"sigmoid", "noaux_tc"});  // dots.llm1 says the latter and means sigmoid
  config.expect("topk_method", {"noaux_tc"});
  router.score = RouterScore::sigmoid;
  router.correction = true;
  router.scale = static_cast<float>(config.real("routed_scaling_factor", 0, kMaxScale));
  parse_groups(config, router);
  router.group_score = GroupScore::best_two;
  return router;
}

void set_shared_moe(ConfigReader& config, ModelSpec& spec, const RouterSpec& router, int n_dense) {
  MoeFfn moe{.router = router, .d_ff = config.integer("moe_intermediate_size", 1, kMaxWidth)};
  const int n_shared = config.integer("n_shared_experts", 0, kMaxWidth);
  if (n_shared > kMaxWidth / moe.d_ff) config.refuse("n_shared_experts", "the shared experts are too wide");
  if (config.failed()) return;
  moe.shared_d_ff = n_shared * moe.d_ff;
  const int dense_d_ff = n_dense > 0 ? config.integer("intermediate_size", 1, kMaxWidth) : 0;
  for (int i = 0; i < static_cast<int>(spec.layers.size()); ++i) {
    auto& ffn = spec.layers[static_cast<std::size_t>(i)].ffn;
    ffn = moe;
    if (i < n_dense) ffn = DenseFfn{dense_d_ff};
  }
}

void set_dense_first(ConfigReader& config, ModelSpec& spec, const RouterSpec& router) {
  const int n_dense = config.integer("first_k_dense_replace", 0, static_cast<int>(spec.layers.size()));
  if (config.integer_or("moe_layer_freq", 1, 1, kMaxLayers) != 1)
    config.refuse("moe_layer_freq", "only 1 is supported");
  set_shared_moe(config, spec, router, n_dense);
}

void set_sparse(ConfigReader& config, ModelSpec& spec, const MoeFfn& moe) {
  const int step = config.integer_or("decoder_sparse_step", 1, 1, kMaxLayers);
  const std::vector<int> dense = config.integers("mlp_only_layers", 0, kMaxLayers - 1);
  std::vector<bool> is_dense(static_cast<std::size_t>(kMaxLayers));
  for (const int layer : dense) is_dense[static_cast<std::size_t>(layer)] = true;
  bool any_dense = false;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    is_dense[i] = is_dense[i] || (i + 1) % static_cast<std::size_t>(step) != 0;
    any_dense = any_dense || is_dense[i];
  }
  const int d_ff = any_dense ? config.integer("intermediate_size", 1, kMaxWidth) : 0;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    spec.layers[i].ffn = moe;
    if (is_dense[i]) spec.layers[i].ffn = DenseFfn{d_ff};
  }
}

void set_attention_bias(ConfigReader& config, ModelSpec& spec) {
  const bool bias = config.flag_or("attention_bias", false);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qkv_bias = attention_of(layer).o_bias = bias;
}

void set_window_everywhere(ConfigReader& config, ModelSpec& spec) {
  const int window = config.integer_or("sliding_window", 0, 1, kMaxContext);
  for (LayerSpec& layer : spec.layers) attention_of(layer).window = window;
}

}  // namespace colibri
