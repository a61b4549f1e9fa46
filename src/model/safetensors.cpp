// SPDX-License-Identifier: Apache-2.0
// Header checks. The limits are far above the largest published shards (about 100,000 tensors, 12 MB of header).
#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/json.h"

namespace colibri {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr JsonLimits kHeaderLimits{.depth = 4, .bytes = kMaxHeaderBytes, .values = 2'000'000};
constexpr std::size_t kMaxDimensions = 8;
constexpr std::size_t kShownNameBytes = 120;

static_assert(std::endian::native == std::endian::little, "the format is little-endian and read in place");

constexpr std::array kTypes{
    StoredType{"BOOL", 1}, StoredType{"U8", 1},      StoredType{"I8", 1},      StoredType{"F8_E4M3", 1},
    StoredType{"U16", 2},  StoredType{"F8_E5M2", 1}, StoredType{"F8_E8M0", 1}, StoredType{"I16", 2},
    StoredType{"F16", 2},  StoredType{"BF16", 2},    StoredType{"U32", 4},     StoredType{"I32", 4},
    StoredType{"F32", 4},  StoredType{"U64", 8},     StoredType{"I64", 8},     StoredType{"F64", 8},
};

std::string shown(std::string_view name) {
  return name.size() <= kShownNameBytes ? std::string(name) : std::string(name.substr(0, kShownNameBytes)) + "...";
}

/// A whole number >= 0, or nothing.
std::optional<std::uint64_t> count(const Json& value) {
  if (!value.is_int() || value.as_int() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value.as_int());
}

Status parse_type(const Json* value, TensorInfo& tensor) {
  if (value == nullptr || !value->is_string()) return data_error("dtype is missing or no string");
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const StoredType& known) { return known.name == value->as_string(); });
  if (type == kTypes.end()) return data_error("dtype \"" + shown(value->as_string()) + "\" is unknown");
  tensor.type = *type;
  return {};
}

Status parse_shape(const Json* value, TensorInfo& tensor) {
  if (value == nullptr || !value->is_array()) return data_error("shape is missing or no list");
  if (value->as_array().size() > kMaxDimensions)
    return data_error("shape has more than " + std::to_string(kMaxDimensions) + " dimensions");
  tensor.bytes = static_cast<std::uint64_t>(tensor.type.bytes);
  for (const Json& item : value->as_array()) {
    const auto dimension = count(item);
    if (!dimension) return data_error("shape holds something else than whole numbers from 0 on");
    if (__builtin_mul_overflow(tensor.bytes, *dimension, &tensor.bytes))
      return data_error("shape " + shape_text(tensor.shape) + " times " + std::to_string(*dimension) + " overflows");
    tensor.shape.push_back(static_cast<std::int64_t>(*dimension));
  }
  return {};
}

/// tensor.offset stays relative to the data section here.
Status parse_offsets(const Json* value, TensorInfo& tensor) {
  if (value == nullptr || !value->is_array() || value->as_array().size() != 2)
    return data_error("data_offsets is missing or no pair");
  const auto begin = count(value->as_array()[0]);
  const auto end = count(value->as_array()[1]);
  if (!begin || !end) return data_error("data_offsets holds something else than whole numbers from 0 on");
  if (*begin > *end) return data_error("data_offsets end before they begin");
  if (*end - *begin != tensor.bytes) {
    return data_error("data_offsets span " + std::to_string(*end - *begin) + " bytes, dtype and shape " +
                      shape_text(tensor.shape) + " need " + std::to_string(tensor.bytes));
  }
  tensor.offset = *begin;
  return {};
}

Status parse_tensor(const Json& entry, TensorInfo& tensor) {
  if (!entry.is_object() || entry.as_object().size() != 3)
    return data_error("not an object of dtype, shape and data_offsets");
  TRY_STATUS(parse_type(entry.find("dtype"), tensor));
  TRY_STATUS(parse_shape(entry.find("shape"), tensor));
  return parse_offsets(entry.find("data_offsets"), tensor);
}

/// `tensors` is sorted by offset; the data section holds `data_bytes`.
Status check_cover(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset < end) return data_error("tensor " + shown(tensor.name) + " overlaps the one before it");
    if (tensor.offset > end) return data_error("a hole before tensor " + shown(tensor.name));
    end = tensor.offset + tensor.bytes;
    if (end > data_bytes) {
      return data_error("tensor " + shown(tensor.name) + " ends " + std::to_string(end - data_bytes) +
                        " bytes behind the end of the file: it is cut short, fetch it again");
    }
  }
  if (end != data_bytes) return data_error(std::to_string(data_bytes - end) + " bytes behind the last tensor");
  return {};
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

Result<std::vector<TensorInfo>> parse_safetensors_header(std::string_view header, std::uint64_t data_offset,
                                                         std::uint64_t file_bytes) {
  if (!header.starts_with('{')) return data_error("header: does not begin with {");
  TRY(json, parse_json(header, kHeaderLimits).at("header"));
  std::vector<TensorInfo> tensors;
  tensors.reserve(json.as_object().size());
  for (const auto& [name, entry] : json.as_object()) {
    if (name == "__metadata__") continue;
    TensorInfo tensor;
    tensor.name = name;
    TRY_STATUS(parse_tensor(entry, tensor).at("tensor " + shown(name)));
    tensors.push_back(std::move(tensor));
  }
  // Empty tensors share their offset with the next one and come first.
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  TRY_STATUS(check_cover(tensors, file_bytes - data_offset));
  for (TensorInfo& tensor : tensors) tensor.offset += data_offset;
  return tensors;
}

Result<std::vector<TensorInfo>> read_safetensors_header(const File& file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) return data_error(file.path() + ": too short for a safetensors file");
  TRY_STATUS(file.read_at(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMaxHeaderBytes || length > file.size() - sizeof length) {
    return data_error(file.path() + ": header of " + std::to_string(length) +
                      " bytes: not a safetensors file, or cut short");
  }
  std::string header(length, '\0');
  TRY_STATUS(file.read_at(sizeof length, std::as_writable_bytes(std::span(header))));
  return parse_safetensors_header(header, sizeof length + length, file.size()).at(file.path());
}

}  // namespace colibri
