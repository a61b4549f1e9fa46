// SPDX-License-Identifier: Apache-2.0
// + - * / // % ** and the signs, on numbers, strings and lists.
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/operators.h"

namespace colibri::jinja {
namespace {

std::string_view sign_of(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::sub:
      return "-";
    case Op::mul:
      return "*";
    case Op::div:
      return "/";
    case Op::floordiv:
      return "//";
    case Op::mod:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void fail_operands(Op op, const Value& a, const Value& b) {
  if (op == Op::add && (a.is_string() || (a.is(Kind::list) && a.list().flavor <= Flavor::tuple))) {
    const std::string type(type_name(a));
    fail("can only concatenate " + type + " (not \"" + std::string(type_name(b)) + "\") to " + type);
  }
  fail("unsupported operand type(s) for " + std::string(sign_of(op)) + ": '" + std::string(type_name(a)) + "' and '" +
       std::string(type_name(b)) + "'");
}

[[noreturn]] void fail_overflow() { fail("integer overflow: the result does not fit 64 bits"); }

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Value integers(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Op::add:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      break;
    case Op::sub:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      break;
    case Op::mul:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      break;
    case Op::div:
      if (b == 0) fail("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Op::floordiv:
    case Op::mod: {
      if (b == 0) fail("integer division or modulo by zero");
      if (b == -1) return op == Op::mod ? Value::integer(0) : integers(Op::sub, 0, a);
      const std::int64_t rest = a % b;
      const bool adjust = rest != 0 && (rest < 0) != (b < 0);  // Python rounds down and takes the divisor's sign
      result = op == Op::mod ? rest + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
      break;
    }
    default:
      if (b < 0) {
        if (a == 0) fail("0.0 cannot be raised to a negative power");
        return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      result = a == 0 || a == 1 ? (b == 0 ? 1 : a) : a == -1 ? ((b & 1) != 0 ? -1 : 1) : integer_power(a, b);
  }
  return Value::integer(result);
}

double real_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

Value reals(Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return Value::real(a + b);
    case Op::sub:
      return Value::real(a - b);
    case Op::mul:
      return Value::real(a * b);
    case Op::div:
      if (b == 0) fail("float division by zero");
      return Value::real(a / b);
    case Op::floordiv:
      if (b == 0) fail("float floor division by zero");
      return Value::real(std::floor((a - real_modulo(a, b)) / b + 0.5));
    case Op::mod:
      if (b == 0) fail("float modulo");
      return Value::real(real_modulo(a, b));
    default:
      if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) fail("a negative number to a fractional power is complex");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("Result too large");
      return Value::real(result);
  }
}

Value repeat(Heap& heap, const Value& sequence, std::int64_t times) {
  const auto n = static_cast<std::size_t>(times < 0 ? 0 : times);
  if (sequence.is_string()) {
    const Str& text = sequence.str();
    heap.require(n, text.text.size());
    Builder out(heap);
    if (!text.text.empty())
      for (std::size_t i = 0; i < n; ++i) {
        heap.work(1);
        out.add(text);
      }
    return out.finish(text.markup);
  }
  heap.require(n, sequence.list().items.size() * sizeof(Value));
  List* made = heap.list(sequence.list().flavor);
  if (!sequence.list().items.empty())
    for (std::size_t i = 0; i < n; ++i) {
      heap.work(1);
      for (const Value& item : sequence.list().items) heap.push(*made, item);
    }
  return made;
}

Value concatenate(Heap& heap, const Value& a, const Value& b) {
  if (a.is_string()) {
    const bool markup = a.str().markup || b.str().markup;
    const auto part = [&](const Str& s) { return markup && !s.markup ? escape_html(heap, s) : &s; };
    Builder out(heap);
    out.add(*part(a.str()));
    out.add(*part(b.str()));
    return out.finish(markup);
  }
  List* made = heap.list(a.list().flavor);
  for (const Value* side : {&a, &b})
    for (const Value& item : side->list().items) heap.push(*made, item);
  return made;
}

}  // namespace

Value arithmetic(Heap& heap, Op op, const Value& a, const Value& b) {
  if (op == Op::mod && a.is_string()) return percent_format(heap, a.str(), b);
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::real) || b.is(Kind::real)) return reals(op, a.as_real(), b.as_real());
    return integers(op, a.as_integer(), b.as_integer());
  }
  const auto is_sequence = [](const Value& v) {
    return v.is_string() || (v.is(Kind::list) && v.list().flavor <= Flavor::tuple);
  };
  if (op == Op::add && is_sequence(a) && a.kind() == b.kind() && (a.is_string() || a.list().flavor == b.list().flavor))
    return concatenate(heap, a, b);
  if (op == Op::mul && is_sequence(a) && b.is_integral()) return repeat(heap, a, b.as_integer());
  if (op == Op::mul && is_sequence(b) && a.is_integral()) return repeat(heap, b, a.as_integer());
  fail_operands(op, a, b);
}

Value unary(Op op, const Value& value) {
  if (op == Op::logical_not) return Value::boolean(!truthy(value));
  require_defined(value);
  if (!value.is_number()) fail("bad operand type for a unary sign: '" + std::string(type_name(value)) + "'");
  if (value.is(Kind::real)) return Value::real(op == Op::negative ? -value.as_real() : value.as_real());
  return op == Op::negative ? integers(Op::sub, 0, value.as_integer()) : Value::integer(value.as_integer());
}

}  // namespace colibri::jinja
