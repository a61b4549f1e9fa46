// SPDX-License-Identifier: Apache-2.0
// Each entry is the part of the published config.json that fixes the shape; moe-512x is ours, for many small experts.
#include "model/shapes.h"

#include <array>

#include "base/json.h"
#include "model/config.h"

namespace colibri {
namespace {

struct Shape {
  std::string_view name;
  std::string_view config;
};

constexpr std::array kShapes{
    Shape{"qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
        "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true, "vocab_size": 151936,
        "max_position_embeddings": 40960, "rope_theta": 1000000.0, "rms_norm_eps": 1e-06})"},
    Shape{"qwen1.5-moe-a2.7b", R"({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "norm_topk_prob": false,
        "vocab_size": 151936, "max_position_embeddings": 8192, "rope_theta": 1000000.0, "rms_norm_eps": 1e-06})"},
    Shape{"mixtral-8x7b", R"({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
        "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768, "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-05})"},
    Shape{"qwen2-57b-a14b", R"({"model_type": "qwen2_moe", "hidden_size": 3584, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "num_experts": 64, "num_experts_per_tok": 8,
        "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480, "norm_topk_prob": false,
        "vocab_size": 151936, "max_position_embeddings": 131072, "rope_theta": 1000000.0, "rms_norm_eps": 1e-06})"},
    Shape{"deepseek-v2-lite", R"({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
        "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": null,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
        "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408, "intermediate_size": 10944,
        "first_k_dense_replace": 1, "topk_method": "greedy", "norm_topk_prob": false, "routed_scaling_factor": 1.0,
        "vocab_size": 102400, "max_position_embeddings": 163840, "rope_theta": 10000, "rms_norm_eps": 1e-06,
        "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
        "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707}})"},
    Shape{"gpt-oss-20b", R"({"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "attention_bias": true,
        "num_local_experts": 32, "num_experts_per_tok": 4, "intermediate_size": 2880, "swiglu_limit": 7.0,
        "sliding_window": 128, "vocab_size": 201088, "max_position_embeddings": 131072, "rope_theta": 150000,
        "rms_norm_eps": 1e-05, "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "original_max_position_embeddings": 4096, "truncate": false}})"},
    Shape{"moe-512x", R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 512,
        "num_experts_per_tok": 10, "moe_intermediate_size": 512, "norm_topk_prob": true, "vocab_size": 151936,
        "max_position_embeddings": 262144, "rope_theta": 10000000.0, "rms_norm_eps": 1e-06})"},
};

}  // namespace

std::string synthetic_shape_names() {
  std::string list;
  for (const Shape& shape : kShapes) list.append(list.empty() ? "" : ", ").append(shape.name);
  return list;
}

Result<ModelSpec> synthetic_shape(std::string_view name, int layers, int vocab) {
  for (const Shape& shape : kShapes) {
    if (shape.name != name) continue;
    auto config = parse_json(shape.config);
    CHECK(config.ok());
    if (layers != 0) config->set("num_hidden_layers", layers);
    if (vocab != 0) config->set("vocab_size", vocab);
    TRY(parsed, parse_config(*config, std::string(name)));
    return std::move(parsed.spec);
  }
  return Error{Exit::usage,
               "--synthetic: \"" + std::string(name.substr(0, 60)) + "\" is none of " + synthetic_shape_names()};
}

}  // namespace colibri
