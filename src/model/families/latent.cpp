// SPDX-License-Identifier: Apache-2.0
// Latent attention as DeepSeek's configurations describe it.
#include <cmath>
#include <string>

#include "model/families/families.h"
#include "model/rope.h"

namespace colibri {
namespace {

constexpr float kLatentNormEps = 1e-6F;  // of the published code, whatever rms_norm_eps says

LatentAttentionSpec parse_latent_attention(ConfigReader& config, ModelSpec& spec, const Defaults& defaults) {
  LatentAttentionSpec attention;
  attention.n_heads = config.integer("num_attention_heads", 1, kMaxHeads);
  if (config.integer_or("num_key_value_heads", attention.n_heads, 1, kMaxHeads) != attention.n_heads)
    config.refuse("num_key_value_heads", "differs from num_attention_heads, but all heads share one latent");
  attention.q_rank = config.integer_or("q_lora_rank", 0, 1, kMaxWidth);
  attention.kv_rank = config.integer("kv_lora_rank", 1, kMaxHeadDim);
  attention.nope_dim = config.integer("qk_nope_head_dim", 1, kMaxHeadDim);
  attention.rope_dim = config.integer("qk_rope_head_dim", 2, kMaxHeadDim);
  if (attention.rope_dim % 2 != 0) config.refuse("qk_rope_head_dim", "not an even number");
  attention.v_dim = config.integer("v_head_dim", 1, kMaxHeadDim);
  for (const int dim : {attention.cached(), attention.q_dim(), attention.v_dim}) {
    if (dim > kMaxWidth / attention.n_heads)
      config.refuse("num_attention_heads", "the heads together are wider than " + std::to_string(kMaxWidth));
  }
  for (const char* key : {"attention_bias", "mlp_bias"})
    if (config.flag_or(key, false)) config.refuse(key, "biases are not supported with latent attention");
  attention.norm_eps = kLatentNormEps;
  attention.scale = static_cast<float>(parse_score_factor(config) / std::sqrt(attention.q_dim()));
  attention.rope = parse_rope(config, attention.rope_dim, spec.context, defaults.rope_theta);
  if (attention.rope.dim != attention.rope_dim)
    config.refuse("partial_rotary_factor", "qk_rope_head_dim turns as a whole");
  if (config.flag_or("rope_interleave", true)) attention.rope.pairs = RopePairs::neighbours;
  return attention;
}

}  // namespace

ModelSpec parse_latent_base(ConfigReader& config, const Defaults& defaults) {
  ModelSpec spec = parse_sizes(config, defaults);
  const LatentAttentionSpec attention = parse_latent_attention(config, spec, defaults);
  for (LayerSpec& layer : spec.layers) layer.mixer = attention;
  return spec;
}

void end_context_before_choice(ConfigReader& config, ModelSpec& spec) {
  const int seen = config.integer("index_topk", 1, kMaxContext);
  if (spec.context <= seen) return;
  spec.context = seen;
  config.warn("index_topk", "the context ends at " + std::to_string(seen) +
                                " tokens: attention to a choice of the tokens before is not supported");
}

}  // namespace colibri
