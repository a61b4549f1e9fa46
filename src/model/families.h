// SPDX-License-Identifier: Apache-2.0
// The table of model families: how each one's config.json becomes a ModelSpec, and what it calls its tensors.
// Invariant: nobody outside model/families/ asks which family runs; all that differs is in the spec and these names.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/spec.h"
#include "model/config_reader.h"

namespace colibri {

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
  std::string_view ffn_norm = "post_attention_layernorm";

  std::string_view dense = "mlp.";  // prefix of the dense gate, up and down
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";

  std::string_view router = "mlp.gate";
  std::string_view experts = "mlp.experts.";
  std::string_view expert_gate = "gate_proj";
  std::string_view expert_up = "up_proj";
  std::string_view expert_down = "down_proj";
  std::string_view shared = "mlp.shared_expert.";
  std::string_view shared_gate = "mlp.shared_expert_gate";

  /// Stored tensors with this end are known to be harmless and are skipped: frequencies follow from the config.
  std::string_view ignored_end = ".self_attn.rotary_emb.inv_freq";
};

struct Family {
  std::string_view model_type;  // in config.json
  ModelSpec (*parse)(ConfigReader& config);
  TensorNames names;
};

std::span<const Family> families();

/// nullptr where there is none.
const Family* find_family(std::string_view model_type);

/// "llama, mistral, ...", for messages.
std::string supported_families();

}  // namespace colibri
