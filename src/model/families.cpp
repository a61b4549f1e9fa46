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

constexpr std::array kFamilies{
    Family{"llama", parse_llama, {}},
    Family{"mistral", parse_mistral, {}},
    Family{"mixtral", parse_mixtral, kMixtralNames},
    Family{"olmoe", parse_olmoe, {}},
    Family{"qwen2", parse_qwen2, {}},
    Family{"qwen2_moe", parse_qwen2_moe, {}},
    Family{"qwen3", parse_qwen3, {}},
    Family{"qwen3_moe", parse_qwen3_moe, {}},
};

}  // namespace

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
