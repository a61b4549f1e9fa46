// SPDX-License-Identifier: Apache-2.0
// JSON as a plain value type; the parser library stays inside json.cpp.
// Invariant: objects keep the order of their source, and no object that was parsed has a key twice.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace colibri {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(static_cast<std::int64_t>(value)) {}
  Json(std::int64_t value) : value_(value) {}
  Json(std::uint64_t value);  // a double where it exceeds int64
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // The caller has asked is_...() first; a wrong kind is a broken promise of ours.
  bool as_bool() const { return get<bool>(); }
  std::int64_t as_int() const { return get<std::int64_t>(); }
  double as_double() const { return is_int() ? static_cast<double>(as_int()) : get<double>(); }
  const std::string& as_string() const { return get<std::string>(); }
  const Array& as_array() const { return get<Array>(); }
  Array& as_array() { return const_cast<Array&>(get<Array>()); }
  const Object& as_object() const { return get<Object>(); }
  Object& as_object() { return const_cast<Object&>(get<Object>()); }

  /// The member's value, or nullptr where this is no object or has no such key. Linear in the number of members.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

  /// Sets or appends a member; this is an object (or null, which becomes one).
  Json& set(std::string_view key, Json value);

  bool operator==(const Json&) const = default;

 private:
  template <class T>
  const T& get() const {
    const T* value = std::get_if<T>(&value_);
    CHECK(value != nullptr);
    return *value;
  }

  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> value_ = nullptr;
};

struct JsonLimits {
  std::size_t depth = 64;                    // nesting of arrays and objects
  std::size_t bytes = std::size_t{1} << 30;  // of the text
  std::size_t values = std::size_t{50'000'000};
};

/// Strict JSON: valid UTF-8, no duplicate keys, no trailing text, finite numbers. The message names line and column.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

/// Compact JSON, non-ASCII text as it is. `indent` > 0 breaks lines as Python's json.dumps(indent=...) does.
/// Doubles are written with the fewest digits that read back equal; non-finite ones as null.
std::string write_json(const Json& value, int indent = 0);

}  // namespace colibri
