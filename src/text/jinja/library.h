// SPDX-License-Identifier: Apache-2.0
// The tables of what templates may use by name: filters, tests, methods of strings, lists and dicts, global functions.
// Invariant: the tables are all there is; nothing else of a value can be reached.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "text/jinja/ast.h"

namespace colibri::jinja {

struct FilterEntry {
  std::string_view name;
  FilterFn fn;
};
struct TestEntry {
  std::string_view name;
  TestFn fn;
};

FilterFn find_filter(std::string_view name);  // null where there is none
TestFn find_test(std::string_view name);
std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> sequence_filters();
std::span<const FilterEntry> selection_filters();

/// A method of the value's type: null where Python has none of that name, or none that templates may use.
FilterFn find_method(const Value& value, std::string_view name);
/// Methods that would change the value; the sandbox hides them.
bool is_mutating_method(const Value& value, std::string_view name);

/// Global functions: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
void define_globals(Interpreter& in);

/// Binds arguments to parameter names, as Python would; the first `required` must be given.
class Bound {
 public:
  static constexpr std::size_t kMaxParameters = 6;
  Bound(std::string_view function, const Args& args, std::initializer_list<std::string_view> parameters,
        std::size_t required = 0);

  bool has(std::size_t i) const { return values_[i].has_value(); }
  const Value& operator[](std::size_t i) const { return *values_[i]; }
  Value get(std::size_t i, const Value& otherwise) const { return values_[i].value_or(otherwise); }
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise = false) const;

 private:
  std::string_view function_;
  std::optional<Value> values_[kMaxParameters];
};

}  // namespace colibri::jinja
