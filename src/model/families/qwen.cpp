// SPDX-License-Identifier: Apache-2.0
// Qwen2 and Qwen3, dense and with many small experts: biases on q, k and v, then q and k normalised per head; Qwen2's
// experts stand beside a shared one behind a sigmoid gate.
#include "model/families/families.h"

namespace colibri {
namespace {

ModelSpec parse_qwen2(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qkv_bias = true;
  const int first = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  set_windows(config, spec, [&](int layer) { return layer >= first; });
  set_dense(config, spec);
  return spec;
}

ModelSpec parse_qwen2_moe(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  const bool bias = config.flag_or("qkv_bias", true);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qkv_bias = bias;
  // Without layer_types the oracle gives a window to every second layer of the first max_window_layers.
  const int last = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  set_windows(config, spec, [&](int layer) { return layer % 2 == 0 && layer < last; });
  MoeFfn moe{.router = parse_router(config, spec, config.flag("norm_topk_prob")), .shared_gate = true};
  moe.d_ff = config.integer("moe_intermediate_size", 1, kMaxWidth);
  moe.shared_d_ff = config.integer("shared_expert_intermediate_size", 1, kMaxWidth);
  set_sparse(config, spec, moe);
  return spec;
}

ModelSpec parse_qwen3(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.head_dim = 128});
  set_attention_bias(config, spec);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qk_norm = QkNorm::per_head;
  const int first = config.integer_or("max_window_layers", 28, 0, kMaxLayers);
  set_windows(config, spec, [&](int layer) { return layer >= first; });
  set_dense(config, spec);
  return spec;
}

ModelSpec parse_qwen3_moe(ConfigReader& config) {
  ModelSpec spec = parse_base(config);
  set_attention_bias(config, spec);
  for (LayerSpec& layer : spec.layers) attention_of(layer).qk_norm = QkNorm::per_head;
  set_windows(config, spec, [](int) { return true; });
  MoeFfn moe{.router = parse_router(config, spec, config.flag("norm_topk_prob"))};
  moe.d_ff = config.integer("moe_intermediate_size", 1, kMaxWidth);
  set_sparse(config, spec, moe);
  return spec;
}

/// The text part of Qwen3-VL.
constexpr std::array<std::string_view, 1> kVision{"model.visual."};
constexpr TensorNames kVisionNames{.embedding = "model.language_model.embed_tokens",
                                   .final_norm = "model.language_model.norm",
                                   .layers = "model.language_model.layers.",
                                   .expert_storage = ExpertStorage::transposed,
                                   .fused_gate_up = "mlp.experts.gate_up_proj",
                                   .fused_down = "mlp.experts.down_proj",
                                   .ignored_starts = kVision};

}  // namespace

const Family kQwen2{"qwen2", parse_qwen2, ActiveTables::both, {}};
const Family kQwen2Moe{"qwen2_moe", parse_qwen2_moe, ActiveTables::both, {}};
const Family kQwen3{"qwen3", parse_qwen3, ActiveTables::both, {}};
const Family kQwen3Moe{"qwen3_moe", parse_qwen3_moe, ActiveTables::both, {}};
const Family kQwen3VlMoe{"qwen3_vl_moe", parse_qwen3_moe, ActiveTables::both, kVisionNames};

}  // namespace colibri
