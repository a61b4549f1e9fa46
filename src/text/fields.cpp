// SPDX-License-Identifier: Apache-2.0
// Reads the members of tokenizer.json's objects. Invariant: no message holds more than a line of the file's text.
#include "text/fields.h"

namespace colibri {
namespace {

constexpr std::size_t kShownBytes = 60;

Error wrong(std::string_view key, std::string_view wanted) {
  return data_error("\"" + std::string(key) + "\" must be " + std::string(wanted));
}

}  // namespace

std::string shown(std::string_view text) {
  if (text.size() <= kShownBytes) return write_json(Json(text));
  std::size_t end = kShownBytes;  // back to where a character begins
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return write_json(Json(std::string(text.substr(0, end)) + "..."));
}

Result<std::string> string_field(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr || !value->is_string()) return wrong(key, "a string");
  return value->as_string();
}

Result<std::string> optional_string_field(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr || value->is_null()) return std::string();
  return string_field(object, key);
}

Result<bool> bool_field(const Json& object, std::string_view key, bool fallback) {
  const Json* value = object.find(key);
  if (value == nullptr || value->is_null()) return fallback;
  if (!value->is_bool()) return wrong(key, "true or false");
  return value->as_bool();
}

Result<std::size_t> count_field(const Json& object, std::string_view key, std::size_t limit) {
  const Json* value = object.find(key);
  if (value == nullptr || !value->is_int() || value->as_int() < 0 ||
      static_cast<std::uint64_t>(value->as_int()) > limit)
    return wrong(key, "an integer from 0 to " + std::to_string(limit));
  return static_cast<std::size_t>(value->as_int());
}

Result<const Json::Array*> array_field(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr || !value->is_array()) return wrong(key, "an array");
  return &value->as_array();
}

}  // namespace colibri
