// SPDX-License-Identifier: Apache-2.0
// Filters that apply another filter, a test or an attribute to every item; and the table of all filters.
#include <algorithm>
#include <charconv>

#include "text/jinja/interpreter.h"
#include "text/jinja/library.h"
#include "text/jinja/print.h"
#include "text/jinja/selection.h"

namespace colibri::jinja {

Attribute::Attribute(const Value& path, const Value& otherwise) : otherwise_(otherwise) {
  if (path.is_none()) return;
  if (path.is_integral()) {
    parts_.push_back({{}, path.as_integer(), true});
    return;
  }
  std::string_view rest = to_str(path, "attribute").text;
  for (;;) {
    const std::size_t dot = rest.find('.');
    Part part{rest.substr(0, dot)};
    const char* last = part.name.data() + part.name.size();
    const auto [end, error] = std::from_chars(part.name.data(), last, part.index);
    part.is_index = error == std::errc{} && end == last && part.index >= 0 && !part.name.starts_with('-');
    parts_.push_back(part);
    if (dot == std::string_view::npos) return;
    rest.remove_prefix(dot + 1);
  }
}

Value Attribute::of(Interpreter& in, const Value& item) const {
  in.heap().work(1 + parts_.size());
  Value value = item;
  for (const Part& part : parts_) {
    value = in.item(value, part.is_index ? Value::integer(part.index) : Value(in.heap().view(part.name)));
    if (value.is_undefined() && !otherwise_.is_none()) value = otherwise_;
  }
  return value;
}

namespace {

/// The arguments behind the first `n`.
Args rest_of(const Args& args, std::size_t n) {
  Args rest = args;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(n));
  return rest;
}

Value map(Interpreter& in, const Value& v, const Args& args) {
  Heap& heap = in.heap();
  List* list = heap.list(Flavor::generator);
  if (!truthy(v)) return list;
  if (args.positional.empty()) {
    const Bound bound("map", args, {"attribute", "default"});
    if (!bound.has(0)) fail("map requires a filter argument");
    const Attribute attribute(bound[0], bound.get(1, Value::none()));
    for (const Value& item : iterate(heap, v).items) heap.push(*list, attribute.of(in, item));
    return list;
  }
  const std::string_view name = to_str(args.positional[0], "map").text;
  const FilterFn filter = find_filter(name);
  if (filter == nullptr) fail("No filter named '" + std::string(name) + "'.");
  const Args rest = rest_of(args, 1);
  for (const Value& item : iterate(heap, v).items) {
    heap.work(Heap::kStep);
    heap.push(*list, filter(in, item, rest));
  }
  return list;
}

template <bool wanted, bool by_attribute>
Value choose(Interpreter& in, const Value& v, const Args& args) {
  Heap& heap = in.heap();
  List* list = heap.list(Flavor::generator);
  if (!truthy(v)) return list;
  constexpr std::size_t kOffset = by_attribute ? 1 : 0;
  if (args.positional.size() < kOffset) fail("Missing parameter for attribute name");
  const Attribute attribute(by_attribute ? args.positional[0] : Value::none());
  TestFn test = nullptr;
  Args rest;
  if (args.positional.size() > kOffset) {
    const std::string_view name = to_str(args.positional[kOffset], "select").text;
    test = find_test(name);
    if (test == nullptr) fail("No test named '" + std::string(name) + "'.");
    rest = rest_of(args, kOffset + 1);
  }
  for (const Value& item : iterate(heap, v).items) {
    heap.work(Heap::kStep);
    const Value subject = attribute.of(in, item);
    if ((test != nullptr ? test(in, subject, rest) : truthy(subject)) == wanted) heap.push(*list, item);
  }
  return list;
}

Value attr(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("attr", args, {"name"}, 1);
  const Str& name = to_str(bound[0], "attr");
  if (!v.is(Kind::dict)) return in.attribute(v, name);
  const Value found = in.attribute(v, name);  // the items of a dict are no attributes
  return found.is(Kind::callable) && v.dict().find(name.text) == nullptr ? found
                                                                         : in.heap().absent("no such attribute");
}

constexpr FilterEntry kFilters[] = {
    {"attr", attr},
    {"map", map},
    {"reject", choose<false, false>},
    {"rejectattr", choose<false, true>},
    {"select", choose<true, false>},
    {"selectattr", choose<true, true>},
};

}  // namespace

std::span<const FilterEntry> selection_filters() { return kFilters; }

FilterFn find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), selection_filters()}) {
    const auto found = std::lower_bound(table.begin(), table.end(), name,
                                        [](const FilterEntry& entry, std::string_view n) { return entry.name < n; });
    if (found != table.end() && found->name == name) return found->fn;
  }
  return nullptr;
}

}  // namespace colibri::jinja
