// SPDX-License-Identifier: Apache-2.0
// What the formats share, and the formats themselves.
// Invariant: nothing here reads tensor data; a shape that hostile files or settings give is only ever compared.
#pragma once

#include "model/config_reader.h"
#include "model/formats.h"

namespace colibri {

FormatSettings parse_awq(ConfigReader& config);
FormatSettings parse_compressed_tensors(ConfigReader& config);
FormatSettings parse_fp8(ConfigReader& config);
FormatSettings parse_gptq(ConfigReader& config);
FormatSettings parse_modelopt(ConfigReader& config);
FormatSettings parse_mxfp4(ConfigReader& config);

using Found = Result<std::optional<Encoding>>;
Found find_awq(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint);
Found find_compressed_tensors(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint);
Found find_fp8(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint);
Found find_gptq(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint);
Found find_modelopt(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint);
Found find_mxfp4(const FormatSettings& settings, const Weight& weight, const Checkpoint& checkpoint);

inline constexpr std::array<std::string_view, 1> kE4m3Type{"F8_E4M3"};
inline constexpr std::array<std::string_view, 1> kByteType{"U8"};
inline constexpr std::array<std::string_view, 1> kInt8Type{"I8"};
inline constexpr std::array<std::string_view, 1> kWordType{"I32"};
inline constexpr std::array<std::string_view, 4> kScaleTypes{"F32", "BF16", "F16", "F8_E8M0"};

/// The values of the codes.
std::span<const float> e4m3_values();             // [256]
std::span<const float> e2m1_values();             // [16]
std::span<const float> int8_values();             // [256], two's complement
std::span<const float> centred_values(int bits);  // [2^bits], less half their number: 4 or 8 bits

/// nullptr where there is no tensor of that name.
const TensorInfo* stored(const Checkpoint& checkpoint, const std::string& name);
/// Whether it is there and of this type.
bool stored_as(const Checkpoint& checkpoint, const std::string& name, std::span<const std::string_view> types);

/// `shape` with its last two dimensions replaced.
std::vector<std::int64_t> with_last(std::vector<std::int64_t> shape, std::int64_t rows, std::int64_t cols);

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A weight of 8-bit codes, one to an element, under its own name, whose scale is name + _scale_inv or _scale: one for
/// each block where the format has blocks, else one for each output or one for all, as is stored.
Encoding encode_bytes(const Weight& weight, const std::array<int, 2>& block, std::span<const std::string_view> types,
                      std::span<const float> values, const Checkpoint& checkpoint);

/// A weight of 4-bit floats, two to a byte, in a tensor of this name and shape, with a scale in `name`_scale of this
/// type for each `group` inputs.
Result<Encoding> encode_e2m1(const Weight& weight, const std::string& codes, int group, const std::string& scales,
                             std::span<const std::string_view> scale_types);

/// A tensor of one number.
Grid one_number(std::string name, const Checkpoint& checkpoint);

inline constexpr int kMaxGroup = 1 << 20;

/// How many groups of `size` inputs a weight has; -1: one of all. Error where they do not divide.
Result<std::int64_t> count_groups(const Weight& weight, std::int64_t size);

/// A scale for each output and group of inputs, in a tensor of this name.
Grid grouped_scales(const Weight& weight, std::int64_t groups, std::string name,
                    std::span<const std::string_view> types = kScaleTypes);
/// The same in <base>.scales [groups, outputs].
Grid turned_scales(const Weight& weight, std::int64_t groups);

}  // namespace colibri
