// SPDX-License-Identifier: Apache-2.0
// GPTQ: words of neighbouring inputs in qweight [inputs / n, outputs], words of neighbouring outputs in qzeros
// [groups, outputs / n], scales [groups, outputs], and g_idx, the group of every input. The first version of the format
// stores zeros less one, within their bits.
#include "model/formats/formats.h"

namespace colibri {

FormatSettings parse_gptq(ConfigReader& config) {
  FormatSettings settings;
  settings.bits = config.integer("bits", 1, 32);
  if (settings.bits != 4 && settings.bits != 8) config.refuse("bits", "only 4 and 8 are supported");
  settings.groups = {config.integer("group_size", -1, kMaxGroup)};
  settings.ordered = config.flag_or("desc_act", false);
  const std::string_view key = config.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string version = config.text_or(key, "gptq");
  if (version != "gptq" && version != "gptq_v2") config.refuse(key, "only gptq and gptq_v2 are supported");
  settings.zeros_plus = version == "gptq" ? 1 : 0;
  return settings;
}

Found find_gptq(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint) {
  const std::string base = weight.base();
  if (stored(checkpoint, base + ".qweight") == nullptr) return std::optional<Encoding>();
  const std::int64_t rows = weight.rows();
  const std::int64_t cols = weight.cols();
  const int per = 32 / settings.bits;
  TRY(groups, count_groups(weight, settings.groups[0]));
  if (rows % per != 0 || cols % per != 0)
    return data_error(weight.name + ": GPTQ packs multiples of " + std::to_string(per) + ", not " +
                      shape_text(weight.shape));
  Encoding encoding{.codes = {.name = base + ".qweight",
                              .shape = {cols / per, rows},
                              .types = kWordType,
                              .rows = rows,
                              .cols = cols,
                              .bits = settings.bits,
                              .turned = true},
                    .values = centred_values(settings.bits),
                    .scales = turned_scales(weight, groups),
                    .block_cols = cols / groups,
                    .zeros = Grid{.name = base + ".qzeros",
                                  .shape = {groups, rows / per},
                                  .types = kWordType,
                                  .rows = rows,
                                  .cols = groups,
                                  .bits = settings.bits,
                                  .turned = true,
                                  .packs_rows = true},
                    .zeros_plus = settings.zeros_plus};
  if (settings.ordered || stored(checkpoint, base + ".g_idx") != nullptr)
    encoding.blocks = Grid{.name = base + ".g_idx", .shape = {cols}, .types = kWordType, .cols = cols};
  return std::optional(std::move(encoding));
}

}  // namespace colibri
