// SPDX-License-Identifier: Apache-2.0
// Filters over sequences and mappings.
#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/library.h"
#include "text/jinja/print.h"
#include "text/jinja/selection.h"
#include "text/jinja/strings.h"

namespace colibri::jinja {
namespace {

/// What a sort compares: strings without regard to case, unless asked for.
Value sort_key(Heap& heap, const Value& value, bool case_sensitive) {
  return value.is_string() && !case_sensitive ? Value(change_case(heap, value.str(), Case::lower)) : value;
}

/// Sorts `items` by `keys`, keeping the order of equals.
void sort_by(Heap& heap, std::vector<Value>& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return reverse ? less(heap, keys[b], keys[a]) : less(heap, keys[a], keys[b]);
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const std::size_t i : order) sorted.push_back(items[i]);
  items = std::move(sorted);
}

List* to_list(Heap& heap, const Value& value, Flavor flavor = Flavor::list) {
  const List& items = iterate(heap, value);
  List* list = heap.list(flavor);
  heap.charge(items.items.size() * sizeof(Value));
  list->items = items.items;
  return list;
}

Value list_filter(Interpreter& in, const Value& v, const Args&) { return to_list(in.heap(), v); }

Value length_filter(Interpreter& in, const Value& v, const Args&) {
  if (v.is(Kind::callable))
    if (Value n; v.callable().attribute(in, "length", n)) return n;
  return Value::integer(static_cast<std::int64_t>(length(in.heap(), v)));
}

Value first(Interpreter& in, const Value& v, const Args&) {
  const List& items = iterate(in.heap(), v);
  return items.items.empty() ? in.heap().absent("No first item, sequence was empty.") : items.items.front();
}

Value last(Interpreter& in, const Value& v, const Args&) {
  if (v.is(Kind::list) && v.list().flavor == Flavor::generator) fail("'generator' object is not reversible");
  const List& items = iterate(in.heap(), v);
  return items.items.empty() ? in.heap().absent("No last item, sequence was empty.") : items.items.back();
}

Value join_filter(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("join", args, {"d", "attribute"});
  Heap& heap = in.heap();
  const List* items = &iterate(heap, v);
  if (bound.has(1) && !bound[1].is_none()) {
    const Attribute attribute(bound[1]);
    List* found = heap.list();
    for (const Value& item : items->items) heap.push(*found, attribute.of(in, item));
    items = found;
  }
  return join(heap, bound.has(0) ? as_text(heap, bound[0]) : *heap.view(""), *items, true);
}

Value default_filter(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("default", args, {"default_value", "boolean"});
  const bool replace = v.is_undefined() || (bound.flag(1) && !truthy(v));
  return replace ? bound.get(0, in.heap().view("")) : v;
}

Value items_filter(Interpreter& in, const Value& v, const Args&) {
  List* list = in.heap().list(Flavor::generator);
  if (v.is_undefined()) return list;
  if (!v.is(Kind::dict)) fail("Can only get item pairs from a mapping.");
  list->items = find_method(v, "items")(in, v, {}).list().items;
  return list;
}

Value dict_sort(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string_view by = bound.has(1) ? to_str(bound[1], "dictsort").text : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  require_defined(v);
  if (!v.is(Kind::dict)) fail("'" + std::string(type_name(v)) + "' object has no attribute 'items'");
  List* list = to_list(in.heap(), find_method(v, "items")(in, v, {}));
  std::vector<Value> keys;
  for (const Value& pair : list->items)
    keys.push_back(sort_key(in.heap(), pair.list().items[by == "value"], bound.flag(0)));
  sort_by(in.heap(), list->items, keys, bound.flag(2));
  return list;
}

Value sort_filter(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  Heap& heap = in.heap();
  List* list = to_list(heap, v);
  std::vector<Attribute> attributes;
  if (bound.has(2) && bound[2].is_string()) {
    for (const Value& name : split(heap, bound[2].str(), heap.view(","), -1, false)->items)
      attributes.emplace_back(name);
  } else {
    attributes.emplace_back(bound.get(2, Value::none()));
  }
  std::vector<Value> keys;
  for (const Value& item : list->items) {
    List* key = heap.list();
    for (const Attribute& attribute : attributes)
      heap.push(*key, sort_key(heap, attribute.of(in, item), bound.flag(1)));
    keys.emplace_back(key);
  }
  sort_by(heap, list->items, keys, bound.flag(0));
  return list;
}

Value unique(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("unique", args, {"case_sensitive", "attribute"});
  Heap& heap = in.heap();
  const Attribute attribute(bound.get(1, Value::none()));
  Dict* seen = heap.dict();
  List* list = heap.list(Flavor::generator);
  for (const Value& item : iterate(heap, v).items) {
    const Value key = sort_key(heap, attribute.of(in, item), bound.flag(0));
    if (seen->find(heap, key) != nullptr) continue;
    heap.set(*seen, key, Value::none());
    heap.push(*list, item);
  }
  return list;
}

Value reverse(Interpreter& in, const Value& v, const Args&) {
  if (v.is_string()) return slice(in.heap(), v, Value::none(), Value::none(), Value::integer(-1));
  const bool generator = v.is(Kind::list) && v.list().flavor == Flavor::generator;
  List* list = to_list(in.heap(), v, generator ? Flavor::list : Flavor::generator);
  std::reverse(list->items.begin(), list->items.end());
  return list;
}

Value sum(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("sum", args, {"attribute", "start"});
  const Attribute attribute(bound.get(0, Value::none()));
  Value total = bound.get(1, Value::integer(0));
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : iterate(in.heap(), v).items)
    total = arithmetic(in.heap(), Op::add, total, attribute.of(in, item));
  return total;
}

template <bool wants_max>
Value extreme(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound(wants_max ? "max" : "min", args, {"case_sensitive", "attribute"});
  const Attribute attribute(bound.get(1, Value::none()));
  const List& items = iterate(in.heap(), v);
  if (items.items.empty()) return in.heap().absent("No aggregated item, sequence was empty.");
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : items.items) {
    const Value key = sort_key(in.heap(), attribute.of(in, item), bound.flag(0));
    if (best != nullptr && !(wants_max ? less(in.heap(), best_key, key) : less(in.heap(), key, best_key))) continue;
    best = &item;
    best_key = key;
  }
  return *best;
}

Value batch(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("batch", args, {"linecount", "fill_with"}, 1);
  Heap& heap = in.heap();
  const std::int64_t size = bound.integer(0, 0);
  List* batches = heap.list(Flavor::generator);
  List* current = heap.list();
  for (const Value& item : iterate(heap, v).items) {
    if (static_cast<std::int64_t>(current->items.size()) == size) {
      heap.push(*batches, current);
      current = heap.list();
    }
    heap.push(*current, item);
  }
  if (current->items.empty()) return batches;
  if (bound.has(1) && !bound[1].is_none())
    heap.require(static_cast<std::size_t>(std::max<std::int64_t>(0, size)), sizeof(Value));
  if (bound.has(1) && !bound[1].is_none())
    while (static_cast<std::int64_t>(current->items.size()) < size) heap.push(*current, bound[1]);
  heap.push(*batches, current);
  return batches;
}

Value slice_filter(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("slice", args, {"slices", "fill_with"}, 1);
  Heap& heap = in.heap();
  const List& items = iterate(heap, v);
  const std::int64_t slices = bound.integer(0, 0);
  if (slices == 0) fail("integer division or modulo by zero");
  const auto size = static_cast<std::int64_t>(items.items.size());
  List* made = heap.list(Flavor::generator);
  std::int64_t at = 0;
  for (std::int64_t n = 0; n < slices; ++n) {
    heap.work(Heap::kStep);
    List* part = heap.list();
    const std::int64_t count = size / slices + (n < size % slices ? 1 : 0);
    for (std::int64_t i = 0; i < count; ++i) heap.push(*part, items.items[static_cast<std::size_t>(at++)]);
    if (bound.has(1) && !bound[1].is_none() && n >= size % slices) heap.push(*part, bound[1]);
    heap.push(*made, part);
  }
  return made;
}

Value group_by(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  Heap& heap = in.heap();
  const Attribute attribute(bound[0], bound.get(1, Value::none()));
  List* sorted = to_list(heap, v);
  std::vector<Value> keys;
  const auto key_of = [&](const Value& item) { return sort_key(heap, attribute.of(in, item), bound.flag(2)); };
  for (const Value& item : sorted->items) keys.push_back(key_of(item));
  sort_by(heap, sorted->items, keys, false);
  List* groups = heap.list();
  Value open_key;
  List* open = nullptr;
  for (const Value& item : sorted->items) {
    const Value key = key_of(item);
    if (open == nullptr || !equals(heap, key, open_key)) {
      open = heap.list();
      open_key = key;
      List* pair = heap.list(Flavor::tuple);
      pair->grouped = true;
      heap.push(*pair, bound.flag(2) ? key : attribute.of(in, item));
      heap.push(*pair, open);
      heap.push(*groups, pair);
    }
    heap.push(*open, item);
  }
  return groups;
}

constexpr FilterEntry kFilters[] = {
    {"batch", batch},          {"count", length_filter},
    {"d", default_filter},     {"default", default_filter},
    {"dictsort", dict_sort},   {"first", first},
    {"groupby", group_by},     {"items", items_filter},
    {"join", join_filter},     {"last", last},
    {"length", length_filter}, {"list", list_filter},
    {"max", extreme<true>},    {"min", extreme<false>},
    {"reverse", reverse},      {"slice", slice_filter},
    {"sort", sort_filter},     {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

}  // namespace colibri::jinja
