// SPDX-License-Identifier: Apache-2.0
// The table of model families: how each one's config.json becomes a ModelSpec, and what it calls its tensors.
// Invariant: nobody outside model/families/ asks which family runs; all that differs is in the spec and these names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/spec.h"
#include "model/config_reader.h"

namespace colibri {

/// How the experts of a layer are stored.
enum class ExpertStorage : std::uint8_t {
  apart,         // a tensor for each matrix
  fused,         // [n_experts, 2 * d_ff, d_model], gate before up, and [n_experts, d_model, d_ff]
  transposed,    // [n_experts, d_model, 2 * d_ff], gate before up, and [n_experts, d_ff, d_model]
  fused_inputs,  // [n_experts, d_model, 2 * d_ff], gate and up by turns, and [n_experts, d_ff, d_model]; _bias beside
};

/// Names of stored tensors. Layer tensors are <layers><index>.<name>, an expert's <experts><index>.<name>; ".weight"
/// or ".bias" ends each. The defaults are what most families use.
struct TensorNames {
  std::string_view embedding = "model.embed_tokens";
  std::string_view final_norm = "model.norm";
  std::string_view head = "lm_head";
  std::string_view layers = "model.layers.";

  std::string_view attn_norm = "input_layernorm";
  std::string_view q = "self_attn.q_proj";
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  std::string_view o = "self_attn.o_proj";
  std::string_view q_norm = "self_attn.q_norm";
  std::string_view k_norm = "self_attn.k_norm";
  std::string_view sinks = "self_attn.sinks";  // as it stands

  // Latent attention, whose queries without a latent of their own and whose outputs are q and o above.
  std::string_view q_down = "self_attn.q_a_proj";
  std::string_view q_latent_norm = "self_attn.q_a_layernorm";
  std::string_view q_up = "self_attn.q_b_proj";
  std::string_view kv_down = "self_attn.kv_a_proj_with_mqa";
  std::string_view kv_latent_norm = "self_attn.kv_a_layernorm";
  std::string_view kv_up = "self_attn.kv_b_proj";

  std::string_view ffn_norm = "post_attention_layernorm";

  std::string_view dense = "mlp.";  // prefix of the dense gate, up and down
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";

  std::string_view delta = "linear_attn.";  // prefix of a delta net
  bool delta_grouped = false;               // in_proj_qkvz and in_proj_ba, by key head; else qkv, z, b and a apart
  std::string_view short_conv = "conv.";    // prefix of a short convolution

  std::string_view router = "mlp.gate";
  std::string_view router_correction = "mlp.gate.e_score_correction_bias";  // as it stands
  bool correction_is_row = false;                                           // [1, n_experts]
  std::string_view experts = "mlp.experts.";
  std::string_view expert_gate = "gate_proj";
  std::string_view expert_up = "up_proj";
  std::string_view expert_down = "down_proj";
  ExpertStorage expert_storage = ExpertStorage::apart;
  // As the names stand, of one tensor for all experts.
  std::string_view fused_gate_up = {};
  std::string_view fused_down = {};
  std::string_view shared = "mlp.shared_expert.";
  std::string_view shared_gate = "mlp.shared_expert_gate";

  float norm_plus = 0.0F;  // added to every norm's weight but a delta net's: 1 where the files hold w of 1 + w

  /// Stored tensors with this end are known to be harmless and are skipped: frequencies follow from the config.
  std::string_view ignored_end = ".self_attn.rotary_emb.inv_freq";
  /// So are those that contain this.
  std::string_view ignored_part = {};
  /// And parts that generating text does without: drafting heads, vision.
  std::span<const std::string_view> ignored_starts = {};

  bool ignores(std::string_view name) const {
    return name.ends_with(ignored_end) || (!ignored_part.empty() && name.find(ignored_part) != name.npos) ||
           std::any_of(ignored_starts.begin(), ignored_starts.end(),
                       [&](std::string_view start) { return name.starts_with(start); });
  }
};

/// Whether a stored tensor belongs to a routed expert.
bool is_expert(std::string_view name, const TensorNames& names);

/// Which of the embedding and the head a family's makers count as active, in the numbers that they publish.
enum class ActiveTables : std::uint8_t { both, head, none };

struct Family {
  std::string_view model_type;  // in config.json
  ModelSpec (*parse)(ConfigReader& config);
  ActiveTables active;
  TensorNames names;
  std::span<const TensorNames> others = {};  // that checkpoints of the family are published with as well
};

/// nullptr where there is none.
const Family* find_family(std::string_view model_type);

/// "llama, mistral, ...", for messages.
std::string supported_families();

}  // namespace colibri
