// SPDX-License-Identifier: Apache-2.0
// Boost.JSON's incremental parser drives our own handler, which counts, bounds and refuses duplicates.
#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/src.hpp>

namespace colibri {
namespace {

namespace bj = boost::json;

constexpr std::size_t kShownKeyBytes = 60;  // of a duplicate key, in the message

std::string quoted(std::string_view text) { return bj::serialize(bj::string_view(text.data(), text.size())); }

/// The first key in order of hash that appears twice, or nullptr. Sorting keeps n log n also where a hostile file
/// makes all hashes equal.
const std::string* duplicate_key(const Json::Object& object) {
  using Entry = std::pair<std::size_t, const std::string*>;
  std::vector<Entry> entries;
  entries.reserve(object.size());
  for (const Json::Member& member : object) entries.emplace_back(std::hash<std::string>{}(member.first), &member.first);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
  const auto twin = std::adjacent_find(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.first == b.first && *a.second == *b.second;
  });
  return twin == entries.end() ? nullptr : twin->second;
}

/// Receives the parser's events and builds a Json on explicit stacks: nothing here recurses.
struct Builder {
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = max_object_size;
  static constexpr std::size_t max_key_size = max_object_size;
  static constexpr std::size_t max_string_size = max_object_size;

  std::vector<Json> open;         // containers not yet closed
  std::vector<std::string> keys;  // the pending key of each open object
  std::string text;               // the key, string or number being collected
  Json root;
  std::string refusal;
  std::size_t values_left = 0;

  bool refuse(std::string why, bj::error_code& ec) {
    refusal = std::move(why);
    ec = bj::error::exception;
    return false;
  }

  bool add(Json value, bj::error_code& ec) {
    if (values_left-- == 0) return refuse("more values than the limit allows", ec);
    if (open.empty()) {
      root = std::move(value);
    } else if (open.back().is_array()) {
      open.back().as_array().push_back(std::move(value));
    } else {
      open.back().as_object().emplace_back(std::move(keys.back()), std::move(value));
    }
    return true;
  }

  bool add_number(Json value, bj::error_code& ec) {
    text.clear();
    return add(std::move(value), ec);
  }

  bool close(bj::error_code& ec) {
    Json done = std::move(open.back());
    open.pop_back();
    return add(std::move(done), ec);
  }

  bool on_document_begin(bj::error_code&) { return true; }
  bool on_document_end(bj::error_code&) { return true; }
  bool on_array_begin(bj::error_code&) {
    open.emplace_back(Json::Array{});
    return true;
  }
  bool on_array_end(std::size_t, bj::error_code& ec) { return close(ec); }
  bool on_object_begin(bj::error_code&) {
    open.emplace_back(Json::Object{});
    keys.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, bj::error_code& ec) {
    keys.pop_back();
    if (const std::string* key = duplicate_key(open.back().as_object()))
      return refuse("duplicate key " + quoted(std::string_view(*key).substr(0, kShownKeyBytes)), ec);
    return close(ec);
  }
  bool on_key_part(bj::string_view part, std::size_t, bj::error_code&) {
    text.append(part);
    return true;
  }
  bool on_key(bj::string_view part, std::size_t, bj::error_code&) {
    text.append(part);
    keys.back() = std::exchange(text, {});
    return true;
  }
  bool on_string_part(bj::string_view part, std::size_t, bj::error_code&) {
    text.append(part);
    return true;
  }
  bool on_string(bj::string_view part, std::size_t, bj::error_code& ec) {
    text.append(part);
    return add(Json(std::exchange(text, {})), ec);
  }
  bool on_number_part(bj::string_view part, bj::error_code&) {
    text.append(part);
    return true;
  }
  bool on_int64(std::int64_t value, bj::string_view, bj::error_code& ec) { return add_number(value, ec); }
  bool on_uint64(std::uint64_t value, bj::string_view, bj::error_code& ec) { return add_number(value, ec); }
  bool on_double(double near, bj::string_view part, bj::error_code& ec) {
    // The parser's own value can be some units off in the last place; from_chars rounds correctly.
    text.append(part);
    double value = 0;
    const std::errc range = std::from_chars(text.data(), text.data() + text.size(), value).ec;
    if (range != std::errc{} && std::abs(near) > 1) return refuse("a number is too large", ec);
    return add_number(range == std::errc{} ? value : std::copysign(0.0, near), ec);
  }
  bool on_bool(bool value, bj::error_code& ec) { return add(value, ec); }
  bool on_null(bj::error_code& ec) { return add(nullptr, ec); }
  bool on_comment_part(bj::string_view, bj::error_code&) { return true; }
  bool on_comment(bj::string_view, bj::error_code&) { return true; }
};

std::string place(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n') + 1;
  const std::size_t newline = text.substr(0, offset).rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return "line " + std::to_string(line) + " column " + std::to_string(column);
}

void write_number(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  const std::string_view written(digits, static_cast<std::size_t>(end - digits));
  out += written;
  if (written.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void write(const Json& value, int indent, int level, std::string& out) {
  const auto line_break = [&](int at) {
    if (indent > 0) out.append(1, '\n').append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(at), ' ');
  };
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_int()) {
    out += std::to_string(value.as_int());
  } else if (value.is_double()) {
    write_number(value.as_double(), out);
  } else if (value.is_string()) {
    out += quoted(value.as_string());
  } else if (value.is_array()) {
    out += '[';
    for (std::size_t i = 0; i < value.as_array().size(); ++i) {
      if (i > 0) out += ',';
      line_break(level + 1);
      write(value.as_array()[i], indent, level + 1, out);
    }
    if (!value.as_array().empty()) line_break(level);
    out += ']';
  } else {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : value.as_object()) {
      if (!std::exchange(first, false)) out += ',';
      line_break(level + 1);
      out += quoted(key);
      out += indent > 0 ? ": " : ":";
      write(member, indent, level + 1, out);
    }
    if (!first) line_break(level);
    out += '}';
  }
}

}  // namespace

Json::Json(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    value_ = static_cast<std::int64_t>(value);
  } else {
    value_ = static_cast<double>(value);
  }
}

const Json* Json::find(std::string_view key) const {
  const Object* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  for (const Member& member : *object)
    if (member.first == key) return &member.second;
  return nullptr;
}

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object{};
  if (Json* member = find(key)) {
    *member = std::move(value);
    return *member;
  }
  return as_object().emplace_back(std::string(key), std::move(value)).second;
}

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return data_error("JSON of " + std::to_string(text.size()) + " bytes is over the limit");
  bj::parse_options options;
  options.max_depth = limits.depth;
  bj::basic_parser<Builder> parser(options);
  parser.handler().values_left = limits.values;
  bj::error_code ec;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), ec);
  if (!ec && read < text.size()) ec = bj::error::extra_data;
  if (ec) {
    const std::string& refusal = parser.handler().refusal;
    return data_error("JSON " + place(text, read) + ": " +
                      (!refusal.empty()              ? refusal
                       : ec == bj::error::too_deep   ? std::string("nested too deep")
                       : ec == bj::error::incomplete ? std::string("ends too early")
                                                     : ec.message()));
  }
  return std::move(parser.handler().root);
}

std::string write_json(const Json& value, int indent) {
  std::string out;
  write(value, indent, 0, out);
  return out;
}

}  // namespace colibri
