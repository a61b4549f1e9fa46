// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's Model Optimizer exports: FP8 e4m3 with weight_scale, and NVFP4, 4-bit floats whose scale for each 16
// inputs is e4m3 times weight_scale_2. Checkpoints may mix both.
#include "model/formats/formats.h"

namespace colibri {

FormatSettings parse_modelopt(ConfigReader& config) {
  const std::string algorithm = config.text_or("quant_algo", "");
  for (const char* known : {"FP8", "NVFP4", "MIXED_PRECISION", "FP8_PER_CHANNEL_PER_TOKEN", "W4A16_NVFP4"})
    if (algorithm == known) return {};
  config.refuse("quant_algo", algorithm.empty() ? "missing" : "only FP8, NVFP4 and MIXED_PRECISION are supported");
  return {};
}

Found find_modelopt(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint) {
  constexpr int kGroup = 16;
  if (stored_as(checkpoint, weight.name, kE4m3Type)) return find_fp8(settings, weight, checkpoint);
  if (!stored_as(checkpoint, weight.name, kByteType)) return std::optional<Encoding>();
  TRY(encoding, encode_e2m1(weight, weight.name, kGroup, weight.name + "_scale", kE4m3Type));
  encoding.factor = one_number(weight.name + "_scale_2", checkpoint);
  return std::optional(std::move(encoding));
}

}  // namespace colibri
