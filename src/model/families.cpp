// SPDX-License-Identifier: Apache-2.0
// One line per family; docs/ADDING.md walks through adding one.
#include "model/families.h"

#include <array>

#include "model/families/families.h"

namespace colibri {
namespace {

constexpr TensorNames kMixtralNames{.router = "block_sparse_moe.gate",
                                    .experts = "block_sparse_moe.experts.",
                                    .expert_gate = "w1",
                                    .expert_up = "w3",
                                    .expert_down = "w2"};

/// As it was published before it had a name.
constexpr std::array kMixtralOthers{
    TensorNames{.experts = "mlp.experts.", .expert_gate = "w1", .expert_up = "w3", .expert_down = "w2"}};

constexpr TensorNames kLfm2Names{.final_norm = "model.embedding_norm",
                                 .attn_norm = "operator_norm",
                                 .o = "self_attn.out_proj",
                                 .q_norm = "self_attn.q_layernorm",
                                 .k_norm = "self_attn.k_layernorm",
                                 .ffn_norm = "ffn_norm",
                                 .dense = "feed_forward.",
                                 .gate = "w1",
                                 .up = "w3",
                                 .down = "w2",
                                 .router = "feed_forward.gate",
                                 .router_correction = "feed_forward.expert_bias",
                                 .experts = "feed_forward.experts.",
                                 .expert_gate = "w1",
                                 .expert_up = "w3",
                                 .expert_down = "w2"};

constexpr std::array<std::string_view, 1> kDrafting{"mtp."};
constexpr std::array<std::string_view, 2> kDraftingAndVision{"mtp.", "model.visual."};

constexpr TensorNames kQwen3NextNames{.delta_grouped = true, .norm_plus = 1, .ignored_starts = kDrafting};

constexpr TensorNames kQwen35Names{.norm_plus = 1, .ignored_starts = kDraftingAndVision};
constexpr std::array<std::string_view, 1> kVision{"model.visual."};

constexpr TensorNames fused(TensorNames names) {
  names.expert_storage = ExpertStorage::fused;
  names.fused_gate_up = "mlp.experts.gate_up_proj";
  names.fused_down = "mlp.experts.down_proj";
  return names;
}
/// As the text part of a model that also sees.
constexpr TensorNames nested(TensorNames names) {
  names.embedding = "model.language_model.embed_tokens";
  names.final_norm = "model.language_model.norm";
  names.layers = "model.language_model.layers.";
  return names;
}
constexpr TensorNames kQwen3VisionNames = [] {
  TensorNames names = nested(fused({.ignored_starts = kVision}));
  names.expert_storage = ExpertStorage::transposed;
  return names;
}();
constexpr std::array kQwen35Others{fused(kQwen35Names), nested(kQwen35Names), nested(fused(kQwen35Names))};

constexpr TensorNames kDeepseekNames{.shared = "mlp.shared_experts."};
constexpr TensorNames kIndexedNames{.shared = "mlp.shared_experts.", .ignored_part = ".self_attn.indexer."};
constexpr std::array<std::string_view, 2> kKimiVision{"vision_tower.", "mm_projector."};
constexpr TensorNames kKimiNames{.embedding = "language_model.model.embed_tokens",
                                 .final_norm = "language_model.model.norm",
                                 .head = "language_model.lm_head",
                                 .layers = "language_model.model.layers.",
                                 .shared = "mlp.shared_experts.",
                                 .ignored_starts = kKimiVision};

constexpr TensorNames kHunyuanNames{.q_norm = "self_attn.query_layernorm",
                                    .k_norm = "self_attn.key_layernorm",
                                    .router = "mlp.gate.wg",
                                    .shared = "mlp.shared_mlp."};

constexpr TensorNames kMinimaxNames{.router = "block_sparse_moe.gate",
                                    .router_correction = "block_sparse_moe.e_score_correction_bias",
                                    .experts = "block_sparse_moe.experts.",
                                    .expert_gate = "w1",
                                    .expert_up = "w3",
                                    .expert_down = "w2"};

constexpr std::array<std::string_view, 1> kErnieDrafting{"model.mtp_"};
constexpr TensorNames kErnieNames{.router_correction = "mlp.moe_statics.e_score_correction_bias",
                                  .correction_is_row = true,
                                  .shared = "mlp.shared_experts.",
                                  .ignored_starts = kErnieDrafting};

constexpr TensorNames kGraniteNames{.router = "block_sparse_moe.router.layer",
                                    .expert_storage = ExpertStorage::fused,
                                    .fused_gate_up = "block_sparse_moe.input_linear.weight",
                                    .fused_down = "block_sparse_moe.output_linear.weight"};

constexpr TensorNames kGptOssNames{.router = "mlp.router",
                                   .expert_storage = ExpertStorage::fused_inputs,
                                   .fused_gate_up = "mlp.experts.gate_up_proj",
                                   .fused_down = "mlp.experts.down_proj"};

constexpr std::array kFamilies{
    Family{"deepseek", parse_deepseek, ActiveTables::both, kDeepseekNames},
    Family{"deepseek_v2", parse_deepseek_v2, ActiveTables::head, kDeepseekNames},
    Family{"deepseek_v3", parse_deepseek_v3, ActiveTables::head, kDeepseekNames},
    Family{"deepseek_v32", parse_deepseek_v32, ActiveTables::head, kIndexedNames},
    Family{"dots1", parse_dots1, ActiveTables::both, kDeepseekNames},
    Family{"ernie", parse_ernie4_5_moe, ActiveTables::both, kErnieNames},
    Family{"ernie4_5_moe", parse_ernie4_5_moe, ActiveTables::both, kErnieNames},
    Family{"glm4_moe", parse_glm4_moe, ActiveTables::none, kDeepseekNames},
    Family{"glm4_moe_lite", parse_glm4_moe_lite, ActiveTables::none, kDeepseekNames},
    Family{"glm_moe_dsa", parse_glm_moe_dsa, ActiveTables::head, kIndexedNames},
    Family{"gpt_oss", parse_gpt_oss, ActiveTables::head, kGptOssNames},
    Family{"granitemoe", parse_granitemoe, ActiveTables::none, kGraniteNames},
    Family{"hunyuan_v1_moe", parse_hunyuan_v1_moe, ActiveTables::both, kHunyuanNames},
    Family{"joyai_llm_flash", parse_deepseek_v3, ActiveTables::head, kDeepseekNames},
    Family{"kimi_k2", parse_deepseek_v3, ActiveTables::head, kDeepseekNames},
    Family{"kimi_k25", parse_deepseek_v3, ActiveTables::head, kKimiNames},
    Family{"lfm2_moe", parse_lfm2_moe, ActiveTables::both, kLfm2Names},
    Family{"llama", parse_llama, ActiveTables::both, {}},
    Family{"minimax_m2", parse_minimax_m2, ActiveTables::none, kMinimaxNames},
    Family{"mistral", parse_mistral, ActiveTables::both, {}, kMixtralOthers},
    Family{"mixtral", parse_mixtral, ActiveTables::both, kMixtralNames},
    Family{"olmoe", parse_olmoe, ActiveTables::both, {}},
    Family{"phimoe", parse_phimoe, ActiveTables::both, kMixtralNames},
    Family{"qwen2", parse_qwen2, ActiveTables::both, {}},
    Family{"qwen2_moe", parse_qwen2_moe, ActiveTables::both, {}},
    Family{"qwen3", parse_qwen3, ActiveTables::both, {}},
    Family{"qwen3_5_moe", parse_qwen3_5_moe, ActiveTables::both, kQwen35Names, kQwen35Others},
    Family{"qwen3_5_moe_text", parse_qwen3_5_moe, ActiveTables::both, kQwen35Names, kQwen35Others},
    Family{"qwen3_moe", parse_qwen3_moe, ActiveTables::both, {}},
    Family{"qwen3_next", parse_qwen3_next, ActiveTables::none, kQwen3NextNames},
    Family{"qwen3_vl_moe", parse_qwen3_moe, ActiveTables::both, kQwen3VisionNames},
};

}  // namespace

bool is_expert(std::string_view name, const TensorNames& names) {
  if (!name.starts_with(names.layers)) return false;
  name.remove_prefix(names.layers.size());
  name.remove_prefix(std::min(name.find('.'), name.size() - 1) + 1);  // the layer's index
  const auto starts = [&](std::string_view part) { return !part.empty() && name.starts_with(part); };
  return starts(names.experts) || starts(names.fused_gate_up) || starts(names.fused_down);
}

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies)
    if (family.model_type == model_type) return &family;
  return nullptr;
}

std::string supported_families() {
  std::string list;
  for (const Family& family : kFamilies) list.append(list.empty() ? "" : ", ").append(family.model_type);
  return list;
}

}  // namespace colibri
