// SPDX-License-Identifier: Apache-2.0
// Making strings, slices and dictionaries; taint is kept exact through all of them.
#include "text/jinja/value.h"

#include <algorithm>

#include "text/jinja/operators.h"

namespace colibri::jinja {
namespace {

constexpr std::size_t kLinearKeys = 8;  // members; above it string keys are indexed

}  // namespace

std::string Absence::message() const {
  if (type == "!") return name;
  if (type.empty()) return "'" + name + "' is undefined";
  const std::string owner(type);
  return element ? owner + " has no element " + name : "'" + owner + "' has no attribute '" + name + "'";
}

const Value* Dict::find(std::string_view key) const {
  if (!by_text.empty()) {
    const auto found = by_text.find(key);
    return found == by_text.end() ? nullptr : &items[found->second].second;
  }
  for (const auto& [name, value] : items)
    if (name.is_string() && name.str().text == key) return &value;
  return nullptr;
}

const Value* Dict::find(Heap& heap, const Value& key) const {
  if (key.is_string()) return find(key.str().text);
  require_hashable(heap, key);
  heap.work(items.size());
  for (const auto& [name, value] : items)
    if (!name.is_string() && equals(heap, name, key)) return &value;
  return nullptr;
}

void Heap::set(Dict& dict, const Value& key, const Value& value) {
  if (const Value* known = dict.find(*this, key)) {
    *const_cast<Value*>(known) = value;
    return;
  }
  charge(2 * sizeof(Value));
  dict.items.emplace_back(key, value);
  if (dict.by_text.empty() && dict.items.size() > kLinearKeys) {
    for (std::size_t i = 0; i < dict.items.size(); ++i)
      if (dict.items[i].first.is_string()) dict.by_text.emplace(dict.items[i].first.str().text, i);
  } else if (!dict.by_text.empty() && key.is_string()) {
    dict.by_text.emplace(key.str().text, dict.items.size() - 1);
  }
}

Value* Space::find(std::string_view name) {
  for (auto& [key, value] : attributes)
    if (key == name) return &value;
  return nullptr;
}

const Str* Heap::text(std::string owned, bool tainted) {
  charge(owned.size());
  Str* made = make<Str>();
  made->owned = std::move(owned);
  made->text = made->owned;
  if (tainted && !made->text.empty()) made->tainted.push_back({0, made->text.size()});
  return made;
}

const Str* Heap::view(std::string_view text, bool tainted) {
  Str* made = make<Str>();
  made->text = text;
  if (tainted && !text.empty()) made->tainted.push_back({0, text.size()});
  return made;
}

const Str* Heap::slice(const Str& source, std::size_t begin, std::size_t end) {
  if (begin == 0 && end == source.text.size()) return &source;
  Str* made = make<Str>();
  made->text = source.text.substr(begin, end - begin);
  made->markup = source.markup;
  for (const ByteRange& range : source.tainted) {
    const std::size_t from = std::max(range.begin, begin), to = std::min(range.end, end);
    if (from < to) made->tainted.push_back({from - begin, to - begin});
  }
  charge(made->tainted.size() * sizeof(ByteRange));
  work(source.tainted.size());
  return made;
}

Value Heap::absent(std::string message) {
  auto* absence = make<Absence>();
  absence->type = "!";
  absence->name = std::move(message);
  return absence;
}

Value Heap::from_json(const Json& json, bool tainted) {
  if (json.is_null()) return Value::none();
  if (json.is_bool()) return Value::boolean(json.as_bool());
  if (json.is_int()) return Value::integer(json.as_int());
  if (json.is_double()) return Value::real(json.as_double());
  if (json.is_string()) return view(json.as_string(), tainted);
  if (json.is_array()) {
    List* made = list();
    made->items.reserve(json.as_array().size());
    for (const Json& item : json.as_array()) push(*made, from_json(item, tainted));
    return made;
  }
  Dict* made = dict();
  made->items.reserve(json.as_object().size());
  for (const auto& [key, value] : json.as_object()) set(*made, view(key, tainted), from_json(value, tainted));
  return made;
}

void Builder::add(std::string_view text, bool tainted) {
  if (text.empty()) return;
  heap_.charge(text.size());
  if (text.size() > max_bytes_ - text_.size()) fail_limit("the output is too long");
  text_ += text;
  if (tainted) mark(text_.size() - text.size(), text_.size());
}

void Builder::add_slice(const Str& str, std::size_t begin, std::size_t end) {
  const std::size_t base = text_.size();
  add(str.text.substr(begin, end - begin));
  for (const ByteRange& range : str.tainted) {
    const std::size_t from = std::max(range.begin, begin), to = std::min(range.end, end);
    if (from < to) mark(base + from - begin, base + to - begin);
  }
}

void Builder::mark(std::size_t begin, std::size_t end) {
  if (!tainted_.empty() && tainted_.back().end == begin) {
    tainted_.back().end = end;
    return;
  }
  heap_.charge(sizeof(ByteRange));
  tainted_.push_back({begin, end});
}

const Str* Builder::finish(bool markup) {
  Str* made = heap_.make<Str>();
  made->owned = std::move(text_);
  made->text = made->owned;
  made->tainted = std::move(tainted_);
  made->markup = markup;
  return made;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.str().markup ? "Markup" : "str";
    case Kind::dict:
      return "dict";
    case Kind::space:
      return "Namespace";
    case Kind::callable:
      return "function";
    case Kind::list:
      break;
  }
  switch (value.list().flavor) {
    case Flavor::list:
      return "list";
    case Flavor::tuple:
      return "tuple";
    case Flavor::range:
      return "range";
    case Flavor::generator:
      return "generator";
    case Flavor::keys:
      return "dict_keys";
    case Flavor::values:
      return "dict_values";
    case Flavor::items:
      return "dict_items";
  }
  return "object";
}

}  // namespace colibri::jinja
