// SPDX-License-Identifier: Apache-2.0
// Qwen3-Next and Qwen3.5-MoE: most layers are gated delta nets, every few one is attention with a gated output; many
// small experts beside a shared one behind a sigmoid gate. They differ in how the delta net's tensors are stored.
#include "model/families/families.h"

namespace colibri {
namespace {

constexpr int kMaxLinearHeads = 4096;
constexpr int kMaxLinearDim = 4096;
constexpr int kMaxConvWidth = 256;

DeltaNetSpec parse_delta_net(ConfigReader& config) {
  DeltaNetSpec net;
  net.n_k_heads = config.integer("linear_num_key_heads", 1, kMaxLinearHeads);
  net.n_v_heads = config.integer("linear_num_value_heads", 1, kMaxLinearHeads);
  net.k_dim = config.integer("linear_key_head_dim", 1, kMaxLinearDim);
  net.v_dim = config.integer("linear_value_head_dim", 1, kMaxLinearDim);
  net.conv_width = config.integer("linear_conv_kernel_dim", 1, kMaxConvWidth);
  if (net.n_v_heads % net.n_k_heads != 0)
    config.refuse("linear_num_key_heads", "does not divide linear_num_value_heads");
  if (net.key_cols() > kMaxWidth / 4 || net.value_cols() > kMaxWidth / 4)
    config.refuse("linear_key_head_dim", "heads * head_dim is over " + std::to_string(kMaxWidth / 4));
  return net;
}

/// Whether each layer is attention: by layer_types, else every full_attention_interval-th.
std::vector<bool> attention_layers(ConfigReader& config, std::size_t n_layers) {
  std::vector<bool> attends(n_layers);
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.empty()) {
    const auto interval = static_cast<std::size_t>(config.integer("full_attention_interval", 1, kMaxLayers));
    for (std::size_t i = 0; i < n_layers; ++i) attends[i] = (i + 1) % interval == 0;
    return attends;
  }
  if (types.size() != n_layers) config.refuse("layer_types", "its length differs from num_hidden_layers");
  for (std::size_t i = 0; i < n_layers && !config.failed(); ++i) {
    attends[i] = types[i] == "full_attention";
    if (!attends[i] && types[i] != "linear_attention")
      config.refuse("layer_types", "\"" + types[i].substr(0, 40) + "\" is not supported");
  }
  return attends;
}

/// All but the feed-forward layers.
ModelSpec parse_hybrid(ConfigReader& config) {
  config.integer("head_dim", 2, kMaxLinearDim);
  if (!config.has("partial_rotary_factor") && !config.object("rope_parameters").has("partial_rotary_factor"))
    config.refuse("partial_rotary_factor", "missing");
  if (config.flag_or("use_sliding_window", false)) config.refuse("use_sliding_window", "is not supported");
  ModelSpec spec = parse_base(config);
  set_attention_bias(config, spec);
  const DeltaNetSpec net = parse_delta_net(config);
  const std::vector<bool> attends = attention_layers(config, spec.layers.size());
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    attention_of(spec.layers[i]).qk_norm = QkNorm::per_head;
    attention_of(spec.layers[i]).output_gate = true;
    if (!attends[i]) spec.layers[i].mixer = net;
  }
  return spec;
}

MoeFfn parse_experts(ConfigReader& config, const ModelSpec& spec, bool norm_topk) {
  MoeFfn moe{.router = parse_router(config, spec, norm_topk), .shared_gate = true};
  moe.d_ff = config.integer("moe_intermediate_size", 1, kMaxWidth);
  moe.shared_d_ff = config.integer("shared_expert_intermediate_size", 1, kMaxWidth);
  return moe;
}

ModelSpec parse_qwen3_next(ConfigReader& config) {
  ModelSpec spec = parse_hybrid(config);
  set_sparse(config, spec, parse_experts(config, spec, config.flag("norm_topk_prob")));
  return spec;
}

ModelSpec parse_qwen3_5_moe(ConfigReader& config) {
  ModelSpec spec = parse_hybrid(config);
  if (!config.flag_or("attn_output_gate", true)) config.refuse("attn_output_gate", "only true is supported");
  // Of the delta net; attention's is always a sigmoid.
  config.expect("output_gate_type", {"silu", "swish"});
  if (!config.integers("mlp_only_layers", 0, kMaxLayers - 1).empty())
    config.refuse("mlp_only_layers", "dense layers are not supported in this model_type");
  const MoeFfn moe = parse_experts(config, spec, true);
  for (LayerSpec& layer : spec.layers) layer.ffn = moe;
  return spec;
}

constexpr std::array<std::string_view, 1> kDrafting{"mtp."};
constexpr std::array<std::string_view, 2> kDraftingAndVision{"mtp.", "model.visual."};

constexpr TensorNames kQwen3NextNames{.delta_grouped = true, .norm_plus = 1, .ignored_starts = kDrafting};

constexpr TensorNames kQwen35Names{.norm_plus = 1, .ignored_starts = kDraftingAndVision};

constexpr TensorNames fused(TensorNames names) {
  names.expert_storage = ExpertStorage::fused;
  names.fused_gate_up = "mlp.experts.gate_up_proj";
  names.fused_down = "mlp.experts.down_proj";
  return names;
}
/// As the text part of a model that also sees.
constexpr TensorNames nested(TensorNames names) {
  names.embedding = "model.language_model.embed_tokens";
  names.final_norm = "model.language_model.norm";
  names.layers = "model.language_model.layers.";
  return names;
}

constexpr std::array kQwen35Others{fused(kQwen35Names), nested(kQwen35Names), nested(fused(kQwen35Names))};

}  // namespace

const Family kQwen3Next{"qwen3_next", parse_qwen3_next, ActiveTables::none, kQwen3NextNames};
const Family kQwen35Moe{"qwen3_5_moe", parse_qwen3_5_moe, ActiveTables::both, kQwen35Names, kQwen35Others};
const Family kQwen35MoeText{"qwen3_5_moe_text", parse_qwen3_5_moe, ActiveTables::both, kQwen35Names, kQwen35Others};

}  // namespace colibri
