// SPDX-License-Identifier: Apache-2.0
// Rounding leaves 1e-6; what is computed wrongly is off by more than 1e-3.
#include "engine/self_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/score.h"
#include "forward/place.h"
#include "model/config.h"
#include "model/model.h"

namespace colibri {
namespace {

constexpr double kMostError = 2e-4;

/// Few rows have kernels of their own; the last passes a block of keys, a chunk of them, the window, and a step.
constexpr std::array<std::size_t, 4> kPrompts = {1, 2, 4, 150};

constexpr std::string_view kModels[] = {
    // Grouped queries with norms, a softmax router.
    R"({"model_type": "qwen3_moe", "hidden_size": 80, "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 24, "num_experts": 12, "num_experts_per_tok": 3,
        "moe_intermediate_size": 40, "norm_topk_prob": true, "vocab_size": 130, "max_position_embeddings": 256,
        "rope_theta": 10000.0, "rms_norm_eps": 1e-06})",
    // A window, sinks, biases everywhere, the clamped gate.
    R"({"model_type": "gpt_oss", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "head_dim": 32, "attention_bias": true, "num_local_experts": 8,
        "num_experts_per_tok": 2, "intermediate_size": 48, "swiglu_limit": 7.0, "sliding_window": 40,
        "vocab_size": 130, "max_position_embeddings": 256, "rope_theta": 10000, "rms_norm_eps": 1e-05,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
        "original_max_position_embeddings": 64, "truncate": false}})",
    // Latents, groups of experts, a shared expert, a dense layer.
    R"({"model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "n_shared_experts": 1, "n_group": 4, "topk_group": 2, "moe_intermediate_size": 40, "intermediate_size": 72,
        "first_k_dense_replace": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "vocab_size": 130,
        "max_position_embeddings": 256, "rope_theta": 10000, "rms_norm_eps": 1e-06})",
    // The gated delta rule, gated attention, a gated shared expert.
    R"({"model_type": "qwen3_next", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 40, "partial_rotary_factor": 0.5, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 24,
        "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "norm_topk_prob": true,
        "vocab_size": 130, "max_position_embeddings": 256, "rope_theta": 10000.0, "rms_norm_eps": 1e-06})",
    // Layer norms, two experts by the sparse mixer.
    R"({"model_type": "phimoe", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 40,
        "router_jitter_noise": 0.01, "attention_bias": true, "lm_head_bias": true, "vocab_size": 130,
        "max_position_embeddings": 256, "rope_theta": 10000.0, "rms_norm_eps": 1e-05})"};

/// ||found - expected|| / ||expected||; NaN where something found is.
double relative_error(std::span<const float> found, std::span<const float> expected) {
  double off = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    off += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(off / size);
}

/// Logits of all positions of all prompts, one after another.
Result<std::vector<float>> all_logits(Backend& backend, const Model& model, std::span<const std::int32_t> tokens) {
  std::vector<float> all;
  for (const std::size_t count : kPrompts) {
    TRY_STATUS(score(backend, model, tokens.first(count), [&](int, std::span<const float> logits) {
      all.insert(all.end(), logits.begin(), logits.end());
      return true;
    }));
  }
  return all;
}

}  // namespace

Status self_check(Backend& backend) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < static_cast<int>(kPrompts.back()); ++i) tokens.push_back(i * i * 31 % 130);
  TRY(reference, make_backend("reference", 1));
  for (const std::string_view text : kModels) {
    TRY(json, parse_json(text));
    TRY(config, parse_config(json, "self-check"));
    const ModelSpec& spec = config.spec;
    TRY(model, random_weights(spec, 7, {.progress = {}, .threads = 1}));
    TRY(expected, all_logits(*reference, model, tokens));
    TRY_STATUS(place_weights(backend, model));
    TRY(found, all_logits(backend, model, tokens));
    const double error = relative_error(found, expected);
    if (error <= kMostError) continue;
    char text_of_error[64];
    std::snprintf(text_of_error, sizeof text_of_error, "%.1e of their size, %.0e is allowed", error, kMostError);
    return Error{Exit::gpu_service, "self-check of " + std::string(backend.name()) + ": logits of " + spec.family +
                                        " are off by " + text_of_error +
                                        "; this build does not fit this GPU, or the GPU is damaged"};
  }
  return {};
}

}  // namespace colibri
