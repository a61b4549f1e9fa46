// SPDX-License-Identifier: Apache-2.0
// Python's operators on template values: truth, comparison, arithmetic, indexing.
// Invariant: an operation that Python refuses fails with Python's words; int64 overflow is refused, never wrapped.
#pragma once

#include "text/jinja/value.h"

namespace colibri::jinja {

enum class Op : std::uint8_t {
  add,
  sub,
  mul,
  div,
  floordiv,
  mod,
  pow,  // binary
  eq,
  ne,
  lt,
  lteq,
  gt,
  gteq,
  in,
  notin,  // comparison
  negative,
  positive,
  logical_not,  // unary
  logical_and,
  logical_or,
};

bool truthy(const Value& value);
/// Python's ==. Nested too deep or too large to compare within bounds: fails.
bool equals(Heap& heap, const Value& a, const Value& b);
/// Python's <, on numbers, strings, lists and tuples.
bool less(Heap& heap, const Value& a, const Value& b);
bool contains(Heap& heap, const Value& item, const Value& container);
bool compare(Heap& heap, Op op, const Value& a, const Value& b);
Value arithmetic(Heap& heap, Op op, const Value& a, const Value& b);
Value unary(Op op, const Value& value);
void require_hashable(Heap& heap, const Value& key);

/// The items of anything that a for loop can walk; strings give their characters, dicts their keys.
const List& iterate(Heap& heap, const Value& value);
std::size_t length(Heap& heap, const Value& value);
/// value[begin:end:step]; a bound that is none is open.
Value slice(Heap& heap, const Value& value, const Value& begin, const Value& end, const Value& step);
/// Fails where the value is undefined, with the reason; otherwise does nothing.
void require_defined(const Value& value);
/// The integer in `value`, or a TypeError that names `what`.
std::int64_t to_integer(const Value& value, std::string_view what);
double to_real(const Value& value, std::string_view what);
const Str& to_str(const Value& value, std::string_view what);

}  // namespace colibri::jinja
