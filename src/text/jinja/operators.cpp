// SPDX-License-Identifier: Apache-2.0
// Comparison, truth and indexing. Recursion through nested values is bounded, and every visit is counted.
#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/unicode.h"

namespace colibri::jinja {
namespace {

constexpr int kMaxNesting = 200;  // of values inside values, as far as an operator follows them

void descend(Heap& heap, int depth) {
  heap.work(1);
  if (depth > kMaxNesting) fail_limit("a value is nested too deep");
}

bool is_sequence(const Value& v) { return v.is(Kind::list) && v.list().flavor <= Flavor::tuple; }

bool equal_at(Heap& heap, const Value& a, const Value& b, int depth) {
  descend(heap, depth);
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::real) || b.is(Kind::real)) return a.as_real() == b.as_real();
    return a.as_integer() == b.as_integer();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      heap.scan(a.str().text.size());
      return a.str().text == b.str().text;
    case Kind::list: {
      const List &x = a.list(), &y = b.list();
      if (&x == &y) return true;
      if (x.flavor != y.flavor || x.flavor >= Flavor::generator || x.items.size() != y.items.size()) return false;
      for (std::size_t i = 0; i < x.items.size(); ++i)
        if (!equal_at(heap, x.items[i], y.items[i], depth + 1)) return false;
      return true;
    }
    case Kind::dict: {
      const Dict &x = a.dict(), &y = b.dict();
      if (&x == &y) return true;
      if (x.items.size() != y.items.size()) return false;
      for (const auto& [key, value] : x.items) {
        const Value* other = y.find(heap, key);
        if (other == nullptr || !equal_at(heap, value, *other, depth + 1)) return false;
      }
      return true;
    }
    default:
      return a.identity() == b.identity();
  }
}

bool less_at(Heap& heap, const Value& a, const Value& b, int depth) {
  descend(heap, depth);
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::real) || b.is(Kind::real)) return a.as_real() < b.as_real();
    return a.as_integer() < b.as_integer();
  }
  if (a.is_string() && b.is_string()) {
    heap.scan(a.str().text.size());
    return a.str().text < b.str().text;  // UTF-8 sorts as its code points do
  }
  if (is_sequence(a) && is_sequence(b) && a.list().flavor == b.list().flavor) {
    const auto &x = a.list().items, &y = b.list().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal_at(heap, x[i], y[i], depth + 1)) return less_at(heap, x[i], y[i], depth + 1);
    return x.size() < y.size();
  }
  fail("'<' not supported between instances of '" + std::string(type_name(a)) + "' and '" + std::string(type_name(b)) +
       "'");
}

void hashable_at(Heap& heap, const Value& key, int depth) {
  descend(heap, depth);
  if (key.is(Kind::dict) || (key.is(Kind::list) && key.list().flavor == Flavor::list))
    fail("unhashable type: '" + std::string(type_name(key)) + "'");
  if (key.is(Kind::list) && key.list().flavor == Flavor::tuple)
    for (const Value& item : key.list().items) hashable_at(heap, item, depth + 1);
}

/// A bound of a slice as Python clamps it.
std::int64_t clamp_bound(const Value& bound, std::int64_t size, std::int64_t open, std::int64_t low,
                         std::int64_t high) {
  if (bound.is_none()) return open;
  if (!bound.is_integral()) fail("slice indices must be integers or None or have an __index__ method");
  std::int64_t at = bound.as_integer();
  if (at < 0) at = at < -size ? low : at + size;
  return std::clamp(at, low, high);
}

}  // namespace

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integer() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::string:
      return !value.str().text.empty();
    case Kind::list:
      return value.list().flavor == Flavor::generator || !value.list().items.empty();
    case Kind::dict:
      return !value.dict().items.empty();
    default:
      return true;
  }
}

bool equals(Heap& heap, const Value& a, const Value& b) { return equal_at(heap, a, b, 0); }
bool less(Heap& heap, const Value& a, const Value& b) { return less_at(heap, a, b, 0); }
void require_hashable(Heap& heap, const Value& key) { hashable_at(heap, key, 0); }

void require_defined(const Value& value) {
  if (!value.is_undefined()) return;
  fail(value.absence() != nullptr ? value.absence()->message() : "a value is undefined");
}

bool contains(Heap& heap, const Value& item, const Value& container) {
  if (container.is_string()) {
    if (!item.is_string()) {
      require_defined(item);
      fail("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
    }
    heap.scan(container.str().text.size());
    return container.str().text.find(item.str().text) != std::string_view::npos;
  }
  if (container.is(Kind::dict)) return container.dict().find(heap, item) != nullptr;
  if (!container.is(Kind::list) && !container.is_undefined())
    fail("argument of type '" + std::string(type_name(container)) + "' is not iterable");
  const List& items = iterate(heap, container);
  return std::any_of(items.items.begin(), items.items.end(),
                     [&](const Value& candidate) { return equals(heap, candidate, item); });
}

bool compare(Heap& heap, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::eq:
      return equals(heap, a, b);
    case Op::ne:
      return !equals(heap, a, b);
    case Op::lt:
      return less(heap, a, b);
    case Op::gt:
      return less(heap, b, a);
    case Op::lteq:
      return less(heap, a, b) || equals(heap, a, b);
    case Op::gteq:
      return less(heap, b, a) || equals(heap, a, b);
    case Op::in:
      return contains(heap, a, b);
    default:
      return !contains(heap, a, b);
  }
}

const List& iterate(Heap& heap, const Value& value) {
  if (value.is(Kind::list)) {
    const List& items = value.list();
    heap.work(items.items.size() / 16);
    if (items.flavor != Flavor::generator) return items;
    if (!items.spent) {
      items.spent = true;
      return items;
    }
    return *heap.list();
  }
  List* made = heap.list();
  if (value.is(Kind::dict)) {
    made->items.reserve(value.dict().items.size());
    for (const auto& [key, member] : value.dict().items) heap.push(*made, key);
  } else if (value.is_string()) {
    const Str& text = value.str();
    for (std::size_t at = 0; at < text.text.size();) {
      const std::size_t start = at;
      next_code_point(text.text, at);
      heap.push(*made, heap.slice(text, start, at));
    }
  } else if (!value.is_undefined()) {
    fail("'" + std::string(type_name(value)) + "' object is not iterable");
  }
  return *made;
}

std::size_t length(Heap& heap, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      heap.scan(value.str().text.size());
      return count_code_points(value.str().text);
    case Kind::dict:
      return value.dict().items.size();
    case Kind::list:
      if (value.list().flavor != Flavor::generator) return value.list().items.size();
      [[fallthrough]];
    default:
      fail("object of type '" + std::string(type_name(value)) + "' has no len()");
  }
}

Value slice(Heap& heap, const Value& value, const Value& begin, const Value& end, const Value& step_value) {
  require_defined(value);
  const bool sequence = value.is(Kind::list) && value.list().flavor <= Flavor::range;
  if (!value.is_string() && !sequence) fail("'" + std::string(type_name(value)) + "' object cannot be sliced");
  if (!step_value.is_none() && !step_value.is_integral()) fail("slice indices must be integers or None");
  const std::int64_t step = step_value.is_none() ? 1 : step_value.as_integer();
  if (step == 0) fail("slice step cannot be zero");
  const auto size = static_cast<std::int64_t>(length(heap, value));
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const std::int64_t from = clamp_bound(begin, size, step > 0 ? 0 : size - 1, low, high);
  const std::int64_t to = clamp_bound(end, size, step > 0 ? size : -1, low, high);

  const Str* text = value.is_string() ? &value.str() : nullptr;
  if (text != nullptr && step == 1) {
    if (to <= from) return heap.view("");
    heap.scan(text->text.size());
    const std::size_t first = code_point_offset(text->text, static_cast<std::size_t>(from));
    const std::size_t count = code_point_offset(text->text.substr(first), static_cast<std::size_t>(to - from));
    return heap.slice(*text, first, first + count);
  }
  const List& items = text != nullptr ? iterate(heap, value) : value.list();
  std::vector<Value> picked;
  for (std::int64_t i = from; step > 0 ? i < to : i > to;) {
    heap.charge(sizeof(Value));
    picked.push_back(items.items[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (text != nullptr) {
    Builder out(heap);
    for (const Value& piece : picked) out.add(piece.str());
    return out.finish(text->markup);
  }
  List* made = heap.list(value.list().flavor);
  made->items = std::move(picked);
  return made;
}

std::int64_t to_integer(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is_integral())
    fail(std::string(what) + ": '" + std::string(type_name(value)) + "' object cannot be interpreted as an integer");
  return value.as_integer();
}

double to_real(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is_number()) fail(std::string(what) + ": must be a number, not " + std::string(type_name(value)));
  return value.as_real();
}

const Str& to_str(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is_string()) fail(std::string(what) + ": must be str, not " + std::string(type_name(value)));
  return value.str();
}

}  // namespace colibri::jinja
