// SPDX-License-Identifier: Apache-2.0
// gpt-oss: every second layer looks through a window, attention has sinks, experts have biases and a clamped gate; the
// chosen logits' softmax is the normalised one over all experts.
#include "model/families/families.h"

namespace colibri {
namespace {

ModelSpec parse_gpt_oss(ConfigReader& config) {
  constexpr double kMost = 1e6;
  ModelSpec spec = parse_base(config, {.rope_theta = 150000, .norm_eps = 1e-5, .head_dim = 64});
  if (!config.has("rope_scaling") && !config.has("rope_parameters")) config.refuse("rope_scaling", "missing");
  const bool bias = config.flag("attention_bias");
  const int window = config.integer("sliding_window", 1, kMaxContext);
  set_windows(config, spec, window, [](int layer) { return layer % 2 == 0; });

  MoeFfn moe{.router = parse_router(config, spec, true),
             .d_ff = config.integer("intermediate_size", 1, kMaxWidth),
             .biases = true,
             .activation = ClampedGate{static_cast<float>(config.real_or("swiglu_alpha", 1.702, 0, kMost)),
                                       static_cast<float>(config.real_or("swiglu_limit", 7.0, 0, kMost))}};
  moe.router.bias = true;
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).qkv_bias = attention_of(layer).o_bias = bias;
    attention_of(layer).sinks = true;
    layer.ffn = moe;
  }
  return spec;
}

constexpr TensorNames kGptOssNames{.router = "mlp.router",
                                   .expert_storage = ExpertStorage::fused_inputs,
                                   .fused_gate_up = "mlp.experts.gate_up_proj",
                                   .fused_down = "mlp.experts.down_proj"};

}  // namespace

const Family kGptOss{"gpt_oss", parse_gpt_oss, ActiveTables::head, kGptOssNames};

}  // namespace colibri
