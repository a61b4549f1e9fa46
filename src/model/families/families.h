// SPDX-License-Identifier: Apache-2.0
// The families, and what their parsers share.
// Invariant: a parser is a straight line of reads; it divides by nothing and indexes nothing that the reader has not
// bounded, so that a hostile file ends in the reader's error.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/spec.h"
#include "model/config_reader.h"
#include "model/families.h"

namespace colibri {

extern const Family kDeepseek;
extern const Family kDeepseekV2;
extern const Family kDeepseekV3;
extern const Family kDeepseekV32;
extern const Family kDots1;
extern const Family kErnie;
extern const Family kErnie45Moe;
extern const Family kGlm4Moe;
extern const Family kGlm4MoeLite;
extern const Family kGlmMoeDsa;
extern const Family kGptOss;
extern const Family kGraniteMoe;
extern const Family kHunyuanV1Moe;
extern const Family kJoyaiLlmFlash;
extern const Family kKimiK2;
extern const Family kKimiK25;
extern const Family kLfm2Moe;
extern const Family kLlama;
extern const Family kMinimaxM2;
extern const Family kMistral;
extern const Family kMixtral;
extern const Family kOlmoe;
extern const Family kPhimoe;
extern const Family kQwen2;
extern const Family kQwen2Moe;
extern const Family kQwen3;
extern const Family kQwen35Moe;
extern const Family kQwen35MoeText;
extern const Family kQwen3Moe;
extern const Family kQwen3Next;
extern const Family kQwen3VlMoe;

/// Of a layer as parse_base makes it.
inline AttentionSpec& attention_of(LayerSpec& layer) { return std::get<AttentionSpec>(layer.mixer); }

inline constexpr int kMaxContext = 1 << 28;
inline constexpr int kMaxHeads = 4096;
inline constexpr int kMaxHeadDim = 4096;

/// A family's values where the file gives none.
struct Defaults {
  double rope_theta = 10000;
  const char* norm_eps_key = "rms_norm_eps";
  double norm_eps = 1e-6;
  int head_dim = 0;  // 0: hidden_size / num_attention_heads
};

/// The sizes of the whole, with as many layers as the file asks for, whose mixer and FFN have no sizes yet.
ModelSpec parse_sizes(ConfigReader& config, const Defaults& defaults = {});

/// Where an indexer picks index_topk tokens for each one's attention: while there are no more, it picks all. Its choice
/// is not built, so the context ends there.
void end_context_before_choice(ConfigReader& config, ModelSpec& spec);

/// parse_sizes() with latent attention in every layer. Neighbours turn together, unless rope_interleave is false.
ModelSpec parse_latent_base(ConfigReader& config, const Defaults& defaults = {});

/// Sizes, attention without biases, norms or windows, and rope: every layer alike, with a dense FFN of d_ff 0.
ModelSpec parse_base(ConfigReader& config, const Defaults& defaults = {});

/// Gives every layer a dense FFN of intermediate_size; refuses a file that speaks of experts.
void set_dense(ConfigReader& config, ModelSpec& spec);

/// What a family calls the size of its router; nullptr: num_experts or num_local_experts, whichever is there.
struct RouterKeys {
  const char* n_experts = nullptr;
  const char* top_k = "num_experts_per_tok";
};

/// A softmax router.
RouterSpec parse_router(ConfigReader& config, const ModelSpec& spec, bool norm_topk, const RouterKeys& keys = {});

/// The router that DeepSeek-V3 made usual: sigmoid scores, a correction of the choice, groups of experts worth their
/// best two, and a scale. Keys n_routed_experts, n_group, topk_group, norm_topk_prob, routed_scaling_factor.
RouterSpec parse_corrected_router(ConfigReader& config, const ModelSpec& spec);

/// Sets n_groups and top_groups from n_group and topk_group; without them all experts are one group.
void parse_groups(ConfigReader& config, RouterSpec& router);

/// MoE layers whose experts are moe_intermediate_size wide beside n_shared_experts shared ones, all but the first
/// n_dense, which are dense.
void set_shared_moe(ConfigReader& config, ModelSpec& spec, const RouterSpec& router, int n_dense);

/// The same with first_k_dense_replace.
void set_dense_first(ConfigReader& config, ModelSpec& spec, const RouterSpec& router);

/// Qwen's placing of MoE layers: every decoder_sparse_step-th, except mlp_only_layers; the others are dense.
void set_sparse(ConfigReader& config, ModelSpec& spec, const MoeFfn& moe);

/// attention_bias: q, k, v and o.
void set_attention_bias(ConfigReader& config, ModelSpec& spec);

/// Gives `window` (0: none) to layers by layer_types where the file has it, else where `by_default(i)`.
template <class ByDefault>
void set_windows(ConfigReader& config, ModelSpec& spec, int window, ByDefault by_default) {
  const std::vector<std::string> types = config.texts("layer_types");
  if (!types.empty() && types.size() != spec.layers.size())
    config.refuse("layer_types", "its length differs from num_hidden_layers");
  for (std::size_t i = 0; i < spec.layers.size() && !config.failed(); ++i) {
    if (!types.empty() && types[i] != "sliding_attention" && types[i] != "full_attention")
      config.refuse("layer_types", "\"" + types[i].substr(0, 40) + "\" is not supported");
    const bool slides = types.empty() ? by_default(static_cast<int>(i)) : types[i] == "sliding_attention";
    if (slides && window == 0 && !types.empty())
      config.refuse("layer_types", "sliding_attention without a sliding_window");
    if (slides) attention_of(spec.layers[i]).window = window;
  }
}

/// The same where use_sliding_window says so.
template <class ByDefault>
void set_windows(ConfigReader& config, ModelSpec& spec, ByDefault by_default) {
  const bool used = config.flag_or("use_sliding_window", false);
  set_windows(config, spec, used ? config.integer_or("sliding_window", 4096, 1, kMaxContext) : 0, by_default);
}

/// sliding_window on every layer (Mistral); null: none.
void set_window_everywhere(ConfigReader& config, ModelSpec& spec);

}  // namespace colibri
