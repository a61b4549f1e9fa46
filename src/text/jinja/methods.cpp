// SPDX-License-Identifier: Apache-2.0
// Methods of strings, lists and dicts.
#include <algorithm>

#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/library.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace colibri::jinja {
namespace {

constexpr auto npos = std::string_view::npos;

const Str* optional_str(const Bound& bound, std::size_t i, std::string_view what) {
  return bound.has(i) && !bound[i].is_none() ? &to_str(bound[i], what) : nullptr;
}

template <Case to>
Value cased(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("str method", args, {});
  return change_case(in.heap(), self.str(), to);
}

template <bool left, bool right>
Value stripped(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("strip", args, {"chars"});
  return strip(in.heap(), self.str(), optional_str(bound, 0, "strip arg"), left, right);
}

template <bool from_right>
Value split_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("split", args, {"sep", "maxsplit"});
  return split(in.heap(), self.str(), optional_str(bound, 0, "separator"), bound.integer(1, -1), from_right);
}

Value splitlines(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("splitlines", args, {"keepends"});
  return split_lines(in.heap(), self.str(), bound.flag(0));
}

Value replace_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  return replace(in.heap(), self.str(), to_str(bound[0], "replace() argument 1"),
                 to_str(bound[1], "replace() argument 2"), bound.integer(2, -1));
}

/// The part of a string that optional start and end arguments choose.
struct Window {
  const Str* part;
  std::int64_t offset;  // of its first code point
  bool valid;           // start is not behind the end of the text
};
Window window(Heap& heap, const Str& text, const Bound& bound) {
  const Value begin = bound.get(1, Value::none()), end = bound.get(2, Value::none());
  if (begin.is_none() && end.is_none()) return {&text, 0, true};
  const auto size = static_cast<std::int64_t>(length(heap, &text));
  std::int64_t offset = begin.is_none() ? 0 : to_integer(begin, "start");
  if (offset < 0) offset = std::max<std::int64_t>(0, offset + size);
  return {&slice(heap, &text, begin, end, Value::none()).str(), offset, offset <= size};
}

template <bool suffix>
Value affixed(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound(suffix ? "endswith" : "startswith", args, {"affix", "start", "end"}, 1);
  const Window where = window(in.heap(), self.str(), bound);
  const auto matches = [&](const Value& affix) {
    const Str& wanted = to_str(affix, "first arg must be str or a tuple of str");
    in.heap().scan(wanted.text.size());
    return where.valid &&
           (suffix ? where.part->text.ends_with(wanted.text) : where.part->text.starts_with(wanted.text));
  };
  if (bound[0].is(Kind::list) && bound[0].list().flavor == Flavor::tuple) {
    const auto& options = bound[0].list().items;
    return Value::boolean(std::any_of(options.begin(), options.end(), matches));
  }
  return Value::boolean(matches(bound[0]));
}

template <bool from_right, bool required>
Value find_method_of_str(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("find", args, {"sub", "start", "end"}, 1);
  const Window where = window(in.heap(), self.str(), bound);
  const std::string_view text = where.part->text, wanted = to_str(bound[0], "find").text;
  in.heap().scan(2 * text.size());
  const std::size_t at = !where.valid ? npos : from_right ? text.rfind(wanted) : text.find(wanted);
  if (at == npos && required) fail("substring not found");
  if (at == npos) return Value::integer(-1);
  return Value::integer(where.offset + static_cast<std::int64_t>(count_code_points(text.substr(0, at))));
}

Value count_in_str(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("count", args, {"sub", "start", "end"}, 1);
  const Window where = window(in.heap(), self.str(), bound);
  const std::string_view text = where.part->text, wanted = to_str(bound[0], "count").text;
  in.heap().scan(text.size());
  std::int64_t n = 0;
  if (!where.valid) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<std::int64_t>(count_code_points(text)) + 1);
  for (std::size_t at = 0; (at = text.find(wanted, at)) != npos; at += wanted.size()) ++n;
  return Value::integer(n);
}

Value join_method(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("join", args, {"iterable"}, 1);
  return join(in.heap(), self.str(), iterate(in.heap(), bound[0]), false);
}

/// Not empty, and every character of the kind.
template <bool (*is_kind)(char32_t)>
Value all_of_kind(Interpreter& in, const Value& self, const Args&) {
  const std::string_view text = self.str().text;
  in.heap().scan(text.size());
  for (std::size_t at = 0; at < text.size();)
    if (!is_kind(next_code_point(text, at))) return Value::boolean(false);
  return Value::boolean(!text.empty());
}

bool is_alphanumeric(char32_t c) { return is_word(c) && c != '_'; }
bool is_numeric(char32_t c) { return is_word(c) && c != '_' && !is_alphabetic(c); }

Value as_test(Interpreter& in, const Value& self, std::string_view test) {
  return Value::boolean(find_test(test)(in, self, {}));
}

template <bool prefix>
Value remove_affix(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound(prefix ? "removeprefix" : "removesuffix", args, {"affix"}, 1);
  const Str &text = self.str(), &affix = to_str(bound[0], "affix");
  const std::size_t size = text.text.size(), cut = affix.text.size();
  if (prefix) return text.text.starts_with(affix.text) ? in.heap().slice(text, cut, size) : &text;
  return text.text.ends_with(affix.text) ? in.heap().slice(text, 0, size - cut) : &text;
}

template <bool from_right>
Value partition(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("partition", args, {"sep"}, 1);
  const Str& separator = to_str(bound[0], "partition");
  const List* parts = split(in.heap(), self.str(), &separator, 1, from_right);
  List* three = in.heap().list(Flavor::tuple);
  if (parts->items.size() == 2) {
    three->items = {parts->items[0], &separator, parts->items[1]};
  } else {
    const Value empty = in.heap().view("");
    three->items = from_right ? std::vector<Value>{empty, empty, self} : std::vector<Value>{self, empty, empty};
  }
  return three;
}

enum class Side { left, right, both };
template <Side side>
Value justify(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("justify", args, {"width", "fillchar"}, 1);
  const Str& fill = bound.has(1) ? to_str(bound[1], "fillchar") : *in.heap().view(" ");
  const std::int64_t width = bound.integer(0, 0);
  if (side == Side::both) return center(in.heap(), self.str(), width, fill);
  const auto missing = width - static_cast<std::int64_t>(length(in.heap(), self));
  return pad(in.heap(), self.str(), side == Side::right ? missing : 0, side == Side::left ? missing : 0, fill);
}

Value zero_fill(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("zfill", args, {"width"}, 1);
  const Str& text = self.str();
  const auto missing = bound.integer(0, 0) - static_cast<std::int64_t>(length(in.heap(), self));
  in.heap().require(static_cast<std::size_t>(std::max<std::int64_t>(0, missing)), 1);
  const std::size_t sign = text.text.starts_with('-') || text.text.starts_with('+') ? 1 : 0;
  Builder out(in.heap());
  out.add_slice(text, 0, sign);
  for (std::int64_t i = 0; i < missing; ++i) out.add("0");
  out.add_slice(text, sign, text.text.size());
  return out.finish();
}

constexpr FilterEntry kStringMethods[] = {
    {"capitalize", cased<Case::capitalize>},
    {"casefold", cased<Case::lower>},
    {"center", justify<Side::both>},
    {"count", count_in_str},
    {"endswith", affixed<true>},
    {"find", find_method_of_str<false, false>},
    {"format", [](Interpreter& in, const Value& v, const Args& a) { return brace_format(in, v.str(), a); }},
    {"index", find_method_of_str<false, true>},
    {"isalnum", all_of_kind<is_alphanumeric>},
    {"isalpha", all_of_kind<is_alphabetic>},
    {"isdecimal", all_of_kind<is_digit>},
    {"isdigit", all_of_kind<is_digit>},
    {"islower", [](Interpreter& in, const Value& v, const Args&) { return as_test(in, v, "lower"); }},
    {"isnumeric", all_of_kind<is_numeric>},
    {"isspace", all_of_kind<is_space>},
    {"isupper", [](Interpreter& in, const Value& v, const Args&) { return as_test(in, v, "upper"); }},
    {"join", join_method},
    {"ljust", justify<Side::left>},
    {"lower", cased<Case::lower>},
    {"lstrip", stripped<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace_method},
    {"rfind", find_method_of_str<true, false>},
    {"rindex", find_method_of_str<true, true>},
    {"rjust", justify<Side::right>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", stripped<false, true>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", affixed<false>},
    {"strip", stripped<true, true>},
    {"swapcase", cased<Case::swap>},
    {"title", cased<Case::title>},
    {"upper", cased<Case::upper>},
    {"zfill", zero_fill},
};

Value index_in_list(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("index", args, {"value"}, 1);
  const auto& items = self.list().items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equals(in.heap(), items[i], bound[0])) return Value::integer(static_cast<std::int64_t>(i));
  fail("the value is not in the list");
}

Value count_in_list(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("count", args, {"value"}, 1);
  std::int64_t n = 0;
  for (const Value& item : self.list().items) n += equals(in.heap(), item, bound[0]);
  return Value::integer(n);
}

Value copy_list(Interpreter& in, const Value& self, const Args&) {
  List* list = in.heap().list(self.list().flavor);
  for (const Value& item : self.list().items) in.heap().push(*list, item);
  return list;
}

constexpr FilterEntry kListMethods[] = {{"copy", copy_list}, {"count", count_in_list}, {"index", index_in_list}};

Value get_from_dict(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("get", args, {"key", "default"}, 1);
  const Value* found = self.dict().find(in.heap(), bound[0]);
  return found != nullptr ? *found : bound.get(1, Value::none());
}

template <Flavor flavor>
Value dict_view(Interpreter& in, const Value& self, const Args& args) {
  const Bound bound("dict method", args, {});
  List* list = in.heap().list(flavor);
  for (const auto& [key, value] : self.dict().items) {
    if (flavor == Flavor::items) {
      List* pair = in.heap().list(Flavor::tuple);
      in.heap().push(*pair, key);
      in.heap().push(*pair, value);
      in.heap().push(*list, pair);
    } else {
      in.heap().push(*list, flavor == Flavor::keys ? key : value);
    }
  }
  return list;
}

Value copy_dict(Interpreter& in, const Value& self, const Args&) {
  Dict* dict = in.heap().dict();
  for (const auto& [key, value] : self.dict().items) in.heap().set(*dict, key, value);
  return dict;
}

constexpr FilterEntry kDictMethods[] = {{"copy", copy_dict},
                                        {"get", get_from_dict},
                                        {"items", dict_view<Flavor::items>},
                                        {"keys", dict_view<Flavor::keys>},
                                        {"values", dict_view<Flavor::values>}};

}  // namespace

FilterFn find_method(const Value& value, std::string_view name) {
  std::span<const FilterEntry> table;
  if (value.is_string()) {
    table = kStringMethods;
  } else if (value.is(Kind::dict)) {
    table = kDictMethods;
  } else if (value.is(Kind::list) && value.list().flavor <= Flavor::range) {
    table = kListMethods;
    if (value.list().flavor != Flavor::list && name == "copy") return nullptr;
  }
  const auto found = std::lower_bound(table.begin(), table.end(), name,
                                      [](const FilterEntry& entry, std::string_view n) { return entry.name < n; });
  return found != table.end() && found->name == name ? found->fn : nullptr;
}

bool is_mutating_method(const Value& value, std::string_view name) {
  static constexpr std::string_view kOfLists[] = {"append", "clear",  "extend",  "insert",
                                                  "pop",    "remove", "reverse", "sort"};
  static constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto any = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (value.is(Kind::dict)) return any(kOfDicts);
  return value.is(Kind::list) && value.list().flavor == Flavor::list && any(kOfLists);
}

}  // namespace colibri::jinja
