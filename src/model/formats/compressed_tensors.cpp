// SPDX-License-Identifier: Apache-2.0
// compressed-tensors, a family of layouts: weight_packed with words of integers (pack-quantized) or bytes of 4-bit
// floats (nvfp4-, mxfp4-pack-quantized), and weight with e4m3 or int8 (float-, int-, naive-quantized), each with
// weight_scale. config_groups describe them; which group a weight belongs to follows from what is stored.
#include <algorithm>

#include "model/formats/formats.h"

namespace colibri {
namespace {

constexpr std::array<std::string_view, 8> kLayouts{
    "pack-quantized",  "float-quantized",      "int-quantized",        "naive-quantized",
    "mixed-precision", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "dense"};

void check_layout(ConfigReader& config) {
  const std::string layout = config.text_or("format", "dense");
  if (std::find(kLayouts.begin(), kLayouts.end(), layout) == kLayouts.end())
    config.refuse("format", "this layout is not supported");
}

void parse_weights(ConfigReader weights, FormatSettings& settings) {
  const int bits = weights.integer("num_bits", 1, 32);
  if (bits != 4 && bits != 8) weights.refuse("num_bits", "only 4 and 8 are supported");
  settings.bits |= bits;
  settings.groups.push_back(weights.integer_or("group_size", -1, -1, kMaxGroup));
  settings.zeros = settings.zeros && !weights.flag_or("symmetric", true);
  weights.expect("actorder", {"group", "dynamic", "weight", "static"});  // in pairs of the same meaning
  const std::string order = weights.text_or("actorder", "");
  settings.ordered = settings.ordered && (order == "group" || order == "dynamic");
  const std::vector<int> block = weights.integers("block_structure", 1, kMaxGroup);
  if (block.empty()) return;
  if (block.size() != 2) return weights.refuse("block_structure", "not a pair");
  if (settings.block[0] != 0 && settings.block != std::array{block[0], block[1]})
    weights.refuse("block_structure", "groups that differ are not supported");
  settings.block = {block[0], block[1]};
}

/// The members of config_groups, of which files have a handful.
std::vector<ConfigReader> config_groups(ConfigReader config) {
  constexpr std::size_t kMaxGroups = 256;
  ConfigReader groups = config.object("config_groups");
  std::vector<ConfigReader> members;
  const std::vector<std::string> names = groups.keys();
  if (names.size() > kMaxGroups) config.refuse("config_groups", "more than " + std::to_string(kMaxGroups));
  for (std::size_t i = 0; i < std::min(names.size(), kMaxGroups); ++i) members.push_back(groups.object(names[i]));
  return members;
}

/// Rotations that were multiplied into the weights are done; those of activations would be needed here.
void check_transforms(ConfigReader transforms) {
  for (ConfigReader& rotation : config_groups(transforms))
    for (ConfigReader& place : rotation.objects("apply")) place.expect("location", {"weight_input", "weight_output"});
}

/// pack-quantized. Bits and group are those of the settings that fit what is stored.
Found find_packed(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint) {
  const std::int64_t rows = weight.rows();
  const std::int64_t cols = weight.cols();
  const TensorInfo& packed = *stored(checkpoint, weight.name + "_packed");
  const TensorInfo* scale = stored(checkpoint, weight.name + "_scale");
  const bool wide = !packed.shape.empty() && packed.shape.back() == ceil_div(cols, 4);
  const int bits = settings.bits != (4 | 8) ? settings.bits : wide ? 8 : 4;
  const int per = 32 / bits;
  const auto fits = [&](int size) {
    const auto groups = count_groups(weight, size);
    return groups.ok() && scale != nullptr && !scale->shape.empty() && *groups == scale->shape.back();
  };
  const auto chosen = std::find_if(settings.groups.begin(), settings.groups.end(), fits);
  TRY(groups, count_groups(weight, chosen == settings.groups.end() ? settings.groups[0] : *chosen));
  Encoding encoding;
  encoding.codes = {.name = weight.name + "_packed",
                    .shape = with_last(weight.shape, weight.matrix_rows(), ceil_div(cols, per)),
                    .types = kWordType,
                    .rows = rows,
                    .cols = cols,
                    .bits = bits};
  encoding.values = centred_values(bits);
  encoding.scales = grouped_scales(weight, groups, weight.name + "_scale");
  encoding.block_cols = cols / groups;
  const std::string zeros = weight.name + "_zero_point";
  if (settings.zeros || stored(checkpoint, zeros) != nullptr) {
    if (weight.shape.size() != 2) return data_error(zeros + ": zero points of several matrices are not supported");
    encoding.zeros = Grid{.name = zeros,
                          .shape = {ceil_div(rows, per), groups},
                          .types = kWordType,
                          .rows = rows,
                          .cols = groups,
                          .bits = bits,
                          .packs_rows = true};
  }
  const std::string order = weight.name + "_g_idx";
  if (settings.ordered || stored(checkpoint, order) != nullptr)
    encoding.blocks = Grid{.name = order, .shape = {cols}, .types = kWordType, .cols = cols};
  return std::optional(std::move(encoding));
}

}  // namespace

FormatSettings parse_compressed_tensors(ConfigReader& config) {
  FormatSettings settings{.zeros = true, .ordered = true};
  check_layout(config);
  for (ConfigReader& group : config_groups(config)) {
    check_layout(group);
    parse_weights(group.object("weights"), settings);
  }
  if (settings.groups.empty()) config.refuse("config_groups", "missing or empty");
  if (config.object("sparsity_config").text_or("format", "dense") != "dense")
    config.refuse("sparsity_config", "sparse weights are not supported");
  check_transforms(config.object("transform_config"));
  return settings;
}

Found find_compressed_tensors(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint) {
  if (stored_as(checkpoint, weight.name, kInt8Type))
    return std::optional(encode_bytes(weight, {}, kInt8Type, int8_values(), checkpoint));
  const std::string packed = weight.name + "_packed";
  if (stored(checkpoint, packed) == nullptr) return find_fp8(settings, weight, checkpoint);
  if (!stored_as(checkpoint, packed, kByteType)) return find_packed(settings, weight, checkpoint);
  const std::string factor = weight.name + "_global_scale";
  if (stored(checkpoint, factor) == nullptr) {
    TRY(encoding, encode_e2m1(weight, packed, 32, weight.name + "_scale", kByteType));
    return std::optional(std::move(encoding));
  }
  TRY(encoding, encode_e2m1(weight, packed, 16, weight.name + "_scale", kE4m3Type));
  encoding.factor = one_number(factor, checkpoint);
  encoding.factor_divides = true;
  return std::optional(std::move(encoding));
}

}  // namespace colibri
