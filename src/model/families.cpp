// SPDX-License-Identifier: Apache-2.0
// Each family stands in its own file under families/; docs/ADDING.md walks through adding one.
#include "model/families.h"

#include <array>

#include "model/families/families.h"

namespace colibri {
namespace {

constexpr std::array kFamilies{
    &kDeepseek, &kDeepseekV2,  &kDeepseekV3, &kDeepseekV32, &kDots1,      &kErnie,        &kErnie45Moe,
    &kGlm4Moe,  &kGlm4MoeLite, &kGlmMoeDsa,  &kGptOss,      &kGraniteMoe, &kHunyuanV1Moe, &kJoyaiLlmFlash,
    &kKimiK2,   &kKimiK25,     &kLfm2Moe,    &kLlama,       &kMinimaxM2,  &kMistral,      &kMixtral,
    &kOlmoe,    &kPhimoe,      &kQwen2,      &kQwen2Moe,    &kQwen3,      &kQwen35Moe,    &kQwen35MoeText,
    &kQwen3Moe, &kQwen3Next,   &kQwen3VlMoe};

}  // namespace

bool is_expert(std::string_view name, const TensorNames& names) {
  if (!name.starts_with(names.layers)) return false;
  name.remove_prefix(names.layers.size());
  name.remove_prefix(std::min(name.find('.'), name.size() - 1) + 1);  // the layer's index
  const auto starts = [&](std::string_view part) { return !part.empty() && name.starts_with(part); };
  return starts(names.experts) || starts(names.fused_gate_up) || starts(names.fused_down);
}

const Family* find_family(std::string_view model_type) {
  for (const Family* family : kFamilies)
    if (family->model_type == model_type) return family;
  return nullptr;
}

std::string supported_families() {
  std::string list;
  for (const Family* family : kFamilies) list.append(list.empty() ? "" : ", ").append(family->model_type);
  return list;
}

}  // namespace colibri
