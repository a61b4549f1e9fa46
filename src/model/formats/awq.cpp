// SPDX-License-Identifier: Apache-2.0
// AWQ in its gemm layout: words of eight neighbouring outputs in the order 0, 2, 4, 6, 1, 3, 5, 7, in qweight
// [inputs, outputs / 8] and qzeros [groups, outputs / 8], and scales [groups, outputs].
#include "model/formats/formats.h"

namespace colibri {

FormatSettings parse_awq(ConfigReader& config) {
  FormatSettings settings;
  if (config.integer(config.has("w_bit") ? "w_bit" : "bits", 1, 32) != 4) config.refuse("bits", "only 4 is supported");
  settings.groups = {config.integer(config.has("q_group_size") ? "q_group_size" : "group_size", -1, kMaxGroup)};
  const std::string version = config.text_or("version", "gemm");
  if (version != "gemm" && version != "GEMM") config.refuse("version", "only gemm is supported");
  return settings;
}

Found find_awq(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint) {
  constexpr int kBits = 4;
  constexpr int kPer = 32 / kBits;
  const std::string base = weight.base();
  if (stored(checkpoint, base + ".qweight") == nullptr) return std::optional<Encoding>();
  const std::int64_t rows = weight.rows();
  const std::int64_t cols = weight.cols();
  TRY(groups, count_groups(weight, settings.groups[0]));
  if (rows % kPer != 0)
    return data_error(weight.name + ": AWQ packs multiples of 8 outputs, not " + shape_text(weight.shape));
  const auto words = [&](const char* end, std::int64_t n) {
    return Grid{.name = base + end,
                .shape = {n, rows / kPer},
                .types = kWordType,
                .rows = rows,
                .cols = n,
                .bits = kBits,
                .turned = true,
                .packs_rows = true,
                .interleaved = true};
  };
  return std::optional(Encoding{.codes = words(".qweight", cols),
                                .values = centred_values(kBits),
                                .scales = turned_scales(weight, groups),
                                .block_cols = cols / groups,
                                .zeros = words(".qzeros", groups)});
}

}  // namespace colibri
