// SPDX-License-Identifier: Apache-2.0
// LFM2-MoE: gated short convolutions with attention here and there; a sigmoid router whose choice is corrected, after
// a few dense layers.
#include "model/families/families.h"

namespace colibri {
namespace {

constexpr int kMaxConvWidth = 256;

void set_mixers(ConfigReader& config, ModelSpec& spec) {
  ShortConvSpec conv;
  conv.channels = spec.d_model;
  conv.width = config.integer("conv_L_cache", 2, kMaxConvWidth);
  conv.bias = config.flag("conv_bias");
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != spec.layers.size())
    config.refuse("layer_types", types.empty() ? "missing" : "its length differs from num_hidden_layers");
  for (std::size_t i = 0; i < spec.layers.size() && !config.failed(); ++i) {
    attention_of(spec.layers[i]).qk_norm = QkNorm::per_head;
    if (types[i] == "conv") {
      spec.layers[i].mixer = conv;
    } else if (types[i] != "full_attention") {
      config.refuse("layer_types", "\"" + types[i].substr(0, 40) + "\" is not supported");
    }
  }
}

ModelSpec parse_lfm2_moe(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.rope_theta = 1e6, .norm_eps_key = "norm_eps", .norm_eps = 1e-5});
  // The family ties unless the file says otherwise, under either name.
  const char* tied = config.has("tie_embedding") ? "tie_embedding" : "tie_word_embeddings";
  spec.tied_embeddings = config.flag_or(tied, true);
  set_mixers(config, spec);
  RouterSpec router = parse_router(config, spec, config.flag("norm_topk_prob"));
  router.score = RouterScore::sigmoid;
  router.correction = config.flag("use_expert_bias");
  router.scale = static_cast<float>(config.real("routed_scaling_factor", 0, 1e6));
  const MoeFfn moe{.router = router, .d_ff = config.integer("moe_intermediate_size", 1, kMaxWidth)};
  const auto n_dense = static_cast<std::size_t>(config.integer("num_dense_layers", 0, kMaxLayers));
  const int dense_d_ff = n_dense > 0 ? config.integer("intermediate_size", 1, kMaxWidth) : 0;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (i < n_dense) {
      spec.layers[i].ffn = DenseFfn{dense_d_ff};
    } else {
      spec.layers[i].ffn = moe;
    }
  }
  return spec;
}

constexpr TensorNames kLfm2Names{.final_norm = "model.embedding_norm",
                                 .attn_norm = "operator_norm",
                                 .o = "self_attn.out_proj",
                                 .q_norm = "self_attn.q_layernorm",
                                 .k_norm = "self_attn.k_layernorm",
                                 .ffn_norm = "ffn_norm",
                                 .dense = "feed_forward.",
                                 .gate = "w1",
                                 .up = "w3",
                                 .down = "w2",
                                 .router = "feed_forward.gate",
                                 .router_correction = "feed_forward.expert_bias",
                                 .experts = "feed_forward.experts.",
                                 .expert_gate = "w1",
                                 .expert_up = "w3",
                                 .expert_down = "w2"};

}  // namespace

const Family kLfm2Moe{"lfm2_moe", parse_lfm2_moe, ActiveTables::both, kLfm2Names};

}  // namespace colibri
