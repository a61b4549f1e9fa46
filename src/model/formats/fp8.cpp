// SPDX-License-Identifier: Apache-2.0
// FP8 as DeepSeek-V3 and Qwen3-FP8 publish it: e4m3, a scale for each block of weight_block_size, the last of which may
// be short; or, without blocks, a scale for each output or for all.
#include "model/formats/formats.h"

namespace colibri {

FormatSettings parse_fp8(ConfigReader& config) {
  constexpr int kMaxBlock = 1 << 16;
  const std::string type = config.text_or("fmt", "e4m3");
  if (type != "e4m3" && type != "float8_e4m3fn") config.refuse("fmt", "only e4m3 is supported");
  FormatSettings settings;
  const std::vector<int> block = config.integers("weight_block_size", 1, kMaxBlock);
  if (!block.empty() && block.size() != 2) config.refuse("weight_block_size", "not a pair");
  if (block.size() == 2) settings.block = {block[0], block[1]};
  return settings;
}

Found find_fp8(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint) {
  if (!stored_as(checkpoint, weight.name, kE4m3Type)) return std::optional<Encoding>();
  return std::optional(encode_bytes(weight, settings.block, kE4m3Type, e4m3_values(), checkpoint));
}

}  // namespace colibri
