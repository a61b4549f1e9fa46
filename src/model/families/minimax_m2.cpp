// SPDX-License-Identifier: Apache-2.0
// MiniMax-M2: q and k normalised over all heads, a sigmoid router whose choice is corrected, no shared expert.
#include "model/families/families.h"

namespace colibri {
namespace {

ModelSpec parse_minimax_m2(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.rope_theta = 5e6});
  if (!config.flag_or("use_qk_norm", true)) config.refuse("use_qk_norm", "false is not supported");
  config.expect("qk_norm_type", {"per_layer"});
  config.expect("scoring_func", {"sigmoid"});
  if (!config.flag_or("use_routing_bias", true)) config.refuse("use_routing_bias", "false is not supported");
  if (config.integer_or("shared_intermediate_size", 0, 0, kMaxWidth) != 0)
    config.refuse("shared_intermediate_size", "shared experts are not supported in this family");
  for (const int type : config.integers("attn_type_list", 0, 1))
    if (type != 1) config.refuse("attn_type_list", "linear attention (0) is not supported");

  MoeFfn moe{.router = parse_router(config, spec, true), .d_ff = config.integer("intermediate_size", 1, kMaxWidth)};
  moe.router.score = RouterScore::sigmoid;
  moe.router.correction = true;
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).qk_norm = QkNorm::full;
    layer.ffn = moe;
  }
  return spec;
}

constexpr TensorNames kMinimaxNames{.router = "block_sparse_moe.gate",
                                    .router_correction = "block_sparse_moe.e_score_correction_bias",
                                    .experts = "block_sparse_moe.experts.",
                                    .expert_gate = "w1",
                                    .expert_up = "w3",
                                    .expert_down = "w2"};

}  // namespace

const Family kMinimaxM2{"minimax_m2", parse_minimax_m2, ActiveTables::none, kMinimaxNames};

}  // namespace colibri
