// SPDX-License-Identifier: Apache-2.0
// What may stand behind `is`.
#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/library.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace colibri::jinja {
namespace {

template <Op op>
bool compares(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("comparison", args, {"other"}, 1);
  return compare(in.heap(), op, v, bound[0]);
}

template <Kind kind>
bool has_kind(Interpreter&, const Value& v, const Args&) {
  return v.is(kind);
}

template <bool wanted>
bool is_the_boolean(Interpreter&, const Value& v, const Args&) {
  return v.is(Kind::boolean) && v.as_boolean() == wanted;
}

bool is_sequence(const Value& v) {  // len() and indexing both work
  return v.is_undefined() || v.is_string() || v.is(Kind::dict) ||
         (v.is(Kind::list) && v.list().flavor <= Flavor::range);
}

/// At least one cased letter, and none of the other case.
template <bool lower>
bool has_case(Interpreter& in, const Value& v, const Args&) {
  const std::string_view text = as_text(in.heap(), v).text;
  in.heap().scan(text.size());
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (lower ? is_upper(c) : is_lower(c)) return false;
    any |= lower ? is_lower(c) : is_upper(c);
  }
  return any;
}

template <int rest>
bool leaves(Interpreter& in, const Value& v, const Args&) {
  return equals(in.heap(), arithmetic(in.heap(), Op::mod, v, Value::integer(2)), Value::integer(rest));
}

bool divisible(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("divisibleby", args, {"num"}, 1);
  return equals(in.heap(), arithmetic(in.heap(), Op::mod, v, bound[0]), Value::integer(0));
}

bool same_as(Interpreter&, const Value& v, const Args& args) {
  const Bound bound("sameas", args, {"other"}, 1);
  return v.kind() == bound[0].kind() && (v.is_none() || v.identity() == bound[0].identity());
}

constexpr TestEntry kTests[] = {
    {"!=", compares<Op::ne>},
    {"<", compares<Op::lt>},
    {"<=", compares<Op::lteq>},
    {"==", compares<Op::eq>},
    {">", compares<Op::gt>},
    {">=", compares<Op::gteq>},
    {"boolean", has_kind<Kind::boolean>},
    {"callable", has_kind<Kind::callable>},
    {"defined", [](Interpreter&, const Value& v, const Args&) { return !v.is_undefined(); }},
    {"divisibleby", divisible},
    {"eq", compares<Op::eq>},
    {"equalto", compares<Op::eq>},
    {"escaped", [](Interpreter&, const Value& v, const Args&) { return v.is_string() && v.str().markup; }},
    {"even", leaves<0>},
    {"false", is_the_boolean<false>},
    {"filter",
     [](Interpreter&, const Value& v, const Args&) { return v.is_string() && find_filter(v.str().text) != nullptr; }},
    {"float", has_kind<Kind::real>},
    {"ge", compares<Op::gteq>},
    {"greaterthan", compares<Op::gt>},
    {"gt", compares<Op::gt>},
    {"in", compares<Op::in>},
    {"integer", has_kind<Kind::integer>},
    {"iterable", [](Interpreter&, const Value& v,
                    const Args&) { return v.is_undefined() || v.is_string() || v.is(Kind::list) || v.is(Kind::dict); }},
    {"le", compares<Op::lteq>},
    {"lessthan", compares<Op::lt>},
    {"lower", has_case<true>},
    {"lt", compares<Op::lt>},
    {"mapping", has_kind<Kind::dict>},
    {"ne", compares<Op::ne>},
    {"none", has_kind<Kind::none>},
    {"number", [](Interpreter&, const Value& v, const Args&) { return v.is_number(); }},
    {"odd", leaves<1>},
    {"sameas", same_as},
    {"sequence", [](Interpreter&, const Value& v, const Args&) { return is_sequence(v); }},
    {"string", has_kind<Kind::string>},
    {"test",
     [](Interpreter&, const Value& v, const Args&) { return v.is_string() && find_test(v.str().text) != nullptr; }},
    {"true", is_the_boolean<true>},
    {"undefined", has_kind<Kind::undefined>},
    {"upper", has_case<false>},
};

}  // namespace

TestFn find_test(std::string_view name) {
  const auto* found = std::lower_bound(std::begin(kTests), std::end(kTests), name,
                                       [](const TestEntry& entry, std::string_view n) { return entry.name < n; });
  return found != std::end(kTests) && found->name == name ? found->fn : nullptr;
}

}  // namespace colibri::jinja
