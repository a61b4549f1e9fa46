// SPDX-License-Identifier: Apache-2.0
// Hunyuan-A13B: q and k normalised after their rotation, a shared MLP beside the experts. Its files give sizes per
// layer, all alike.
#include "model/families/families.h"

namespace colibri {
namespace {

ModelSpec parse_hunyuan_v1_moe(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.norm_eps = 1e-5});
  set_attention_bias(config, spec);
  if (config.flag_or("use_cla", false)) config.refuse("use_cla", "sharing of keys and values is not supported");
  if (!config.flag_or("use_mixed_mlp_moe", true)) config.refuse("use_mixed_mlp_moe", "false is not supported");
  if (!config.flag_or("norm_topk_prob", true)) config.refuse("norm_topk_prob", "false is not supported");
  const bool norm = config.flag_or("use_qk_norm", true);

  MoeFfn moe{.router = parse_router(config, spec, true, {.n_experts = "num_experts", .top_k = "moe_topk"})};
  const int width = config.integer("intermediate_size", 1, kMaxWidth);
  const auto given = [&](const char* key, int otherwise) {
    return config.has(key) ? config.integer_alike(key, 1, kMaxWidth) : otherwise;
  };
  moe.d_ff = given("moe_intermediate_size", width);
  const int n_shared = given("num_shared_expert", 1);
  if (n_shared > kMaxWidth / width) config.refuse("num_shared_expert", "the shared experts are too wide");
  moe.shared_d_ff = config.failed() ? 0 : n_shared * width;
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).qk_norm = norm ? QkNorm::per_head_turned : QkNorm::none;
    layer.ffn = moe;
  }
  return spec;
}

constexpr TensorNames kHunyuanNames{.q_norm = "self_attn.query_layernorm",
                                    .k_norm = "self_attn.key_layernorm",
                                    .router = "mlp.gate.wg",
                                    .shared = "mlp.shared_mlp."};

}  // namespace

const Family kHunyuanV1Moe{"hunyuan_v1_moe", parse_hunyuan_v1_moe, ActiveTables::both, kHunyuanNames};

}  // namespace colibri
