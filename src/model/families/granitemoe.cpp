// SPDX-License-Identifier: Apache-2.0
// Granite 3 MoE: multipliers on embeddings, residuals, attention and logits; the chosen logits' softmax is the
// normalised one over all experts. Shared experts and Mamba layers belong to other model_types (granitemoeshared,
// granitemoehybrid).
// The residual stream is kept divided by residual_multiplier m, so that layers add to it as they are: an RMSNorm does
// not see the factor where its epsilon is divided by m^2.
#include "model/families/families.h"

namespace colibri {
namespace {

ModelSpec parse_granitemoe(ConfigReader& config) {
  constexpr double kMost = 1e3;
  constexpr double kLeast = 1e-3;
  ModelSpec spec = parse_base(config);
  set_attention_bias(config, spec);
  const double residual = config.real("residual_multiplier", kLeast, kMost);
  spec.embedding_scale = static_cast<float>(config.real("embedding_multiplier", kLeast, kMost) / residual);
  spec.logit_scale = static_cast<float>(1.0 / config.real("logits_scaling", kLeast, kMost));
  spec.norm_eps = static_cast<float>(spec.norm_eps / (residual * residual));
  const auto scale = static_cast<float>(config.real("attention_multiplier", kLeast, kMost));

  MoeFfn moe{.router = parse_router(config, spec, true), .d_ff = config.integer("intermediate_size", 1, kMaxWidth)};
  for (LayerSpec& layer : spec.layers) {
    attention_of(layer).scale = scale;
    layer.ffn = moe;
  }
  return spec;
}

constexpr TensorNames kGraniteNames{.router = "block_sparse_moe.router.layer",
                                    .expert_storage = ExpertStorage::fused,
                                    .fused_gate_up = "block_sparse_moe.input_linear.weight",
                                    .fused_down = "block_sparse_moe.output_linear.weight"};

}  // namespace

const Family kGraniteMoe{"granitemoe", parse_granitemoe, ActiveTables::none, kGraniteNames};

}  // namespace colibri
