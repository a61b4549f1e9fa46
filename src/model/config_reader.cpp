// SPDX-License-Identifier: Apache-2.0
// Numbers are never converted silently: 1.0 is no integer, and a value out of bounds is an error, not a clamp.
#include "model/config_reader.h"

#include <cstdio>

namespace colibri {
namespace {

constexpr std::size_t kShownBytes = 40;  // of a wrong value, in the message

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// A value as the file has it, cut short; a container only by its kind.
std::string shown(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  std::string text = write_json(value);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string place)
    : ConfigReader(&object, std::move(place), std::make_shared<Said>()) {
  if (!object.is_object()) said_->error = data_error(place_ + ": not a JSON object");
}

ConfigReader::ConfigReader(const Json* object, std::string place, std::shared_ptr<Said> said)
    : object_(object), place_(std::move(place)), said_(std::move(said)) {}

const Json* ConfigReader::find(std::string_view key) const {
  const Json* value = object_ == nullptr ? nullptr : object_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const Json* ConfigReader::require(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) refuse(key, "missing");
  return value;
}

std::string ConfigReader::line(std::string_view key, std::string_view text) const {
  return place_ + ": " + std::string(key) + ": " + std::string(text);
}

void ConfigReader::refuse(std::string_view key, std::string_view why) {
  if (!failed()) said_->error = data_error(line(key, why));
}

void ConfigReader::warn(std::string_view key, std::string_view what) { said_->warnings.push_back(line(key, what)); }

Status ConfigReader::status() const {
  if (failed()) return *said_->error;
  return {};
}

int ConfigReader::bounded(std::string_view key, const Json& value, int min, int max) {
  if (!value.is_int()) {
    refuse(key, shown(value) + " is not an integer");
  } else if (value.as_int() < min || value.as_int() > max) {
    refuse(key, shown(value) + " is outside " + std::to_string(min) + ".." + std::to_string(max));
  } else {
    return static_cast<int>(value.as_int());
  }
  return min;
}

double ConfigReader::bounded(std::string_view key, const Json& value, double min, double max) {
  if (!value.is_number()) {
    refuse(key, shown(value) + " is not a number");
  } else if (!(value.as_double() >= min && value.as_double() <= max)) {
    refuse(key, shown(value) + " is outside " + number(min) + ".." + number(max));
  } else {
    return value.as_double();
  }
  return min;
}

int ConfigReader::integer(std::string_view key, int min, int max) {
  const Json* value = require(key);
  return value == nullptr ? min : bounded(key, *value, min, max);
}

int ConfigReader::integer_or(std::string_view key, int fallback, int min, int max) {
  const Json* value = find(key);
  return value == nullptr ? fallback : bounded(key, *value, min, max);
}

int ConfigReader::integer_alike(std::string_view key, int min, int max) {
  const Json* value = require(key);
  if (value == nullptr) return min;
  if (!value->is_array()) return bounded(key, *value, min, max);
  const std::vector<int> values = integers(key, min, max);
  if (values.empty()) refuse(key, "an empty list");
  for (const int other : values)
    if (other != values[0]) refuse(key, "layers that differ are not supported");
  return values.empty() ? min : values[0];
}

double ConfigReader::real(std::string_view key, double min, double max) {
  const Json* value = require(key);
  return value == nullptr ? min : bounded(key, *value, min, max);
}

double ConfigReader::real_or(std::string_view key, double fallback, double min, double max) {
  const Json* value = find(key);
  return value == nullptr ? fallback : bounded(key, *value, min, max);
}

double ConfigReader::real_assumed(std::string_view key, double fallback, double min, double max) {
  if (!has(key)) warn(key, "missing; " + number(fallback) + " is assumed");
  return real_or(key, fallback, min, max);
}

bool ConfigReader::flag(std::string_view key) { return require(key) != nullptr && flag_or(key, false); }

bool ConfigReader::flag_or(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_bool()) return value->as_bool();
  refuse(key, shown(*value) + " is neither true nor false");
  return fallback;
}

std::string ConfigReader::text_or(std::string_view key, std::string fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->as_string();
  refuse(key, shown(*value) + " is not a string");
  return fallback;
}

void ConfigReader::expect(std::string_view key, std::initializer_list<std::string_view> supported) {
  if (!has(key)) return;
  const std::string text = text_or(key, "");
  std::string list;
  for (const std::string_view one : supported) {
    if (text == one) return;
    list.append(list.empty() ? "" : " and ").append(one);
  }
  refuse(key, "\"" + text.substr(0, kShownBytes) + "\" is not supported here, only " + list);
}

std::vector<int> ConfigReader::integers(std::string_view key, int min, int max) {
  std::vector<int> values;
  const Json* list = find(key);
  if (list == nullptr) return values;
  if (!list->is_array()) {
    refuse(key, shown(*list) + " is not a list");
    return values;
  }
  for (const Json& value : list->as_array()) values.push_back(bounded(key, value, min, max));
  return values;
}

std::vector<double> ConfigReader::reals(std::string_view key, double min, double max) {
  std::vector<double> values;
  const Json* list = find(key);
  if (list == nullptr) return values;
  if (!list->is_array()) {
    refuse(key, shown(*list) + " is not a list");
    return values;
  }
  for (const Json& value : list->as_array()) values.push_back(bounded(key, value, min, max));
  return values;
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  std::vector<std::string> values;
  const Json* list = find(key);
  if (list == nullptr) return values;
  if (!list->is_array()) {
    refuse(key, shown(*list) + " is not a list");
    return values;
  }
  for (const Json& value : list->as_array()) {
    if (!value.is_string()) refuse(key, shown(value) + " is not a string");
    values.push_back(value.is_string() ? value.as_string() : "");
  }
  return values;
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> names;
  if (object_ == nullptr || !object_->is_object()) return names;
  for (const auto& [name, value] : object_->as_object()) names.push_back(name);
  return names;
}

ConfigReader ConfigReader::object(std::string_view key) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) refuse(key, shown(*value) + " is not an object");
  return {value, place_ + ": " + std::string(key), said_};
}

std::vector<ConfigReader> ConfigReader::objects(std::string_view key) {
  std::vector<ConfigReader> readers;
  const Json* list = find(key);
  if (list == nullptr) return readers;
  if (!list->is_array()) {
    refuse(key, shown(*list) + " is not a list");
    return readers;
  }
  for (const Json& value : list->as_array()) {
    if (!value.is_object()) refuse(key, shown(value) + " is not an object");
    readers.push_back(ConfigReader(&value, place_ + ": " + std::string(key), said_));
  }
  return readers;
}

}  // namespace colibri
