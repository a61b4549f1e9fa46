// SPDX-License-Identifier: Apache-2.0
// ERNIE 4.5: neighbouring values turn together; a softmax router whose choice is corrected; some layers are dense. Its
// makers' own files, for Paddle, count layers that only fill up their pipeline.
#include "model/families/families.h"

namespace colibri {
namespace {

ModelSpec parse_ernie4_5_moe(ConfigReader& config) {
  ModelSpec spec = parse_base(config, {.rope_theta = 500000, .norm_eps = 1e-5});
  const int n_empty = config.integer_or("remove_tail_layer", 0, 0, kMaxLayers);
  const int n_layers = static_cast<int>(spec.layers.size()) - n_empty;
  if (n_layers <= 0) config.refuse("remove_tail_layer", "leaves no layer");
  if (config.failed()) return spec;
  spec.layers.resize(static_cast<std::size_t>(n_layers));
  if (!config.flag_or("moe_use_aux_free", true)) config.refuse("moe_use_aux_free", "false is not supported");
  if (!config.has("tie_word_embeddings")) config.refuse("tie_word_embeddings", "missing");
  if (config.flag_or("use_bias", false)) config.refuse("use_bias", "biases are not supported");
  for (LayerSpec& layer : spec.layers) attention_of(layer).rope.pairs = RopePairs::neighbours;

  MoeFfn moe{.router = parse_router(config, spec, true, {.n_experts = "moe_num_experts", .top_k = "moe_k"})};
  moe.router.correction = true;
  moe.router.norm_min = static_cast<float>(config.real_or("moe_norm_min", 1e-12, 0, 1));
  moe.d_ff = config.integer("moe_intermediate_size", 1, kMaxWidth);
  const int n_shared = config.integer("moe_num_shared_experts", 0, kMaxWidth);
  if (n_shared > kMaxWidth / moe.d_ff) config.refuse("moe_num_shared_experts", "the shared experts are too wide");
  if (config.failed()) return spec;
  moe.shared_d_ff = n_shared * moe.d_ff;

  const int first = config.integer("moe_layer_start_index", 0, kMaxLayers);
  const int end = config.integer_or("moe_layer_end_index", -1, -1, kMaxLayers);
  const int interval = config.integer_or("moe_layer_interval", 1, 1, kMaxLayers);
  const int last = end < 0 ? n_layers - 1 : end;
  const DenseFfn dense{config.integer("intermediate_size", 1, kMaxWidth)};
  for (int i = 0; i < n_layers; ++i) {
    auto& ffn = spec.layers[static_cast<std::size_t>(i)].ffn;
    if (i >= first && i <= last && (i + 1) % interval == 0) {
      ffn = moe;
    } else {
      ffn = dense;
    }
  }
  return spec;
}

constexpr std::array<std::string_view, 1> kErnieDrafting{"model.mtp_"};

constexpr TensorNames kErnieNames{.router_correction = "mlp.moe_statics.e_score_correction_bias",
                                  .correction_is_row = true,
                                  .shared = "mlp.shared_experts.",
                                  .ignored_starts = kErnieDrafting};

}  // namespace

const Family kErnie{"ernie", parse_ernie4_5_moe, ActiveTables::both, kErnieNames};
const Family kErnie45Moe{"ernie4_5_moe", parse_ernie4_5_moe, ActiveTables::both, kErnieNames};

}  // namespace colibri
