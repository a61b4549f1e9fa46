// SPDX-License-Identifier: Apache-2.0
// MXFP4 as gpt-oss publishes its experts: 4-bit floats and a power of two for each 32 inputs, in <name>_blocks
// [..., groups, 16] and <name>_scales [..., groups].
#include "model/formats/formats.h"

namespace colibri {

FormatSettings parse_mxfp4(ConfigReader&) { return {.turned_experts = true}; }

Found find_mxfp4(const FormatSettings&, const Weight& weight, const Checkpoint& checkpoint) {
  constexpr int kGroup = 32;
  if (stored(checkpoint, weight.name + "_blocks") == nullptr) return std::optional<Encoding>();
  TRY(encoding, encode_e2m1(weight, weight.name + "_blocks", kGroup, weight.name + "_scales", kByteType));
  encoding.codes.shape = encoding.scales.shape;
  encoding.codes.shape.push_back(kGroup / 2);
  return std::optional(std::move(encoding));
}

}  // namespace colibri
