// SPDX-License-Identifier: Apache-2.0
// Expressions, and how names, attributes and items are found.
#include "text/jinja/interpreter.h"
#include "text/jinja/library.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace colibri::jinja {
namespace {

/// What an error message calls the owner of a missing attribute.
std::string_view owner_name(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "bool object";
    case Kind::integer:
      return "int object";
    case Kind::real:
      return "float object";
    case Kind::string:
      return "str object";
    case Kind::dict:
      return "dict object";
    case Kind::space:
      return "namespace object";
    case Kind::list:
      return value.list().flavor == Flavor::list ? "list object" : "tuple object";
    default:
      return "object";
  }
}

}  // namespace

Value Interpreter::eval(const Expr& expr) {
  heap_.work(1);
  if (++depth_ > kMaxDepth) fail_limit("the recursion is too deep");
  const auto leave = [this](Value value) {
    --depth_;
    return value;
  };
  switch (expr.kind) {
    case ExprKind::constant:
      return leave(expr.value);
    case ExprKind::name:
      return leave(lookup(expr.symbol));
    case ExprKind::list:
      return leave(eval_list(expr, Flavor::list));
    case ExprKind::tuple:
      return leave(eval_list(expr, Flavor::tuple));
    case ExprKind::dict:
      return leave(eval_dict(expr));
    case ExprKind::attribute:
      return leave(attribute(eval(*expr.children[0]), *expr.text));
    case ExprKind::item: {
      const Value owner = eval(*expr.children[0]);
      return leave(item(owner, eval(*expr.children[1])));
    }
    case ExprKind::slice:
      return leave(eval_slice(expr));
    case ExprKind::call:
      return leave(eval_call(expr));
    case ExprKind::filter:
      return leave(eval_filter(expr));
    case ExprKind::test:
      return leave(Value::boolean(eval_test(expr)));
    case ExprKind::unary:
      return leave(unary(expr.op, eval(*expr.children[0])));
    case ExprKind::binary: {
      const Value left = eval(*expr.children[0]);
      return leave(arithmetic(heap_, expr.op, left, eval(*expr.children[1])));
    }
    case ExprKind::logic: {
      const Value left = eval(*expr.children[0]);
      return leave(truthy(left) == (expr.op == Op::logical_or) ? left : eval(*expr.children[1]));
    }
    case ExprKind::compare:
      return leave(eval_compare(expr));
    case ExprKind::concat:
      return leave(eval_concat(expr));
    case ExprKind::conditional: {
      const Expr* chosen = truthy(eval(*expr.children[0])) ? expr.children[1] : expr.children[2];
      if (chosen == nullptr)
        return leave(heap_.absent("the inline if-expression evaluated to false and no else section was defined."));
      return leave(eval(*chosen));
    }
  }
  return leave(Value());
}

Value Interpreter::eval_list(const Expr& expr, Flavor flavor) {
  List* list = heap_.list(flavor);
  list->items.reserve(expr.children.size());
  for (const Expr* child : expr.children) heap_.push(*list, eval(*child));
  return list;
}

Value Interpreter::eval_dict(const Expr& expr) {
  Dict* dict = heap_.dict();
  for (std::size_t i = 0; i < expr.children.size(); i += 2) {
    const Value key = eval(*expr.children[i]);
    heap_.set(*dict, key, eval(*expr.children[i + 1]));
  }
  return dict;
}

Value Interpreter::eval_slice(const Expr& expr) {
  Value parts[4];
  for (std::size_t i = 0; i < 4; ++i) parts[i] = expr.children[i] != nullptr ? eval(*expr.children[i]) : Value::none();
  return slice(heap_, parts[0], parts[1], parts[2], parts[3]);
}

Args Interpreter::eval_args(const CallArgs& args) {
  Args values;
  values.positional.reserve(args.positional.size());
  for (const Expr* expr : args.positional) values.positional.push_back(eval(*expr));
  for (const auto& [name, expr] : args.named) values.named.emplace_back(name->text, eval(*expr));
  if (args.star != nullptr) {
    const List& more = iterate(heap_, eval(*args.star));
    heap_.charge(more.items.size() * sizeof(Value));
    values.positional.insert(values.positional.end(), more.items.begin(), more.items.end());
  }
  if (args.double_star != nullptr) {
    const Value more = eval(*args.double_star);
    if (!more.is(Kind::dict)) fail("argument after ** must be a mapping, not " + std::string(type_name(more)));
    for (const auto& [key, value] : more.dict().items) {
      const std::string_view name = to_str(key, "keywords").text;
      for (const auto& known : values.named)
        if (known.first == name) fail("got multiple values for keyword argument '" + std::string(name) + "'");
      heap_.work(1 + values.named.size());
      values.named.emplace_back(name, value);
    }
  }
  return values;
}

Value Interpreter::eval_call(const Expr& expr) {
  const Expr& callee = *expr.children[0];
  heap_.work(Heap::kStep);
  if (callee.kind == ExprKind::attribute) {  // a method: called without an object for it
    const Value self = eval(*callee.children[0]);
    if (const FilterFn method = find_method(self, callee.text->text)) {
      const Args args = eval_args(expr.args);
      line_ = expr.line;
      return method(*this, self, args);
    }
    const Value found = attribute(self, *callee.text);
    const Args args = eval_args(expr.args);
    line_ = expr.line;
    return call(found, args);
  }
  const Value found = eval(callee);
  const Args args = eval_args(expr.args);
  line_ = expr.line;
  return call(found, args);
}

Value Interpreter::call(const Value& callee, const Args& args) {
  require_defined(callee);
  if (!callee.is(Kind::callable)) fail("'" + std::string(type_name(callee)) + "' object is not callable");
  return callee.callable().call(*this, args);
}

Value Interpreter::eval_filter(const Expr& expr) {
  const Value subject = expr.children[0] != nullptr ? eval(*expr.children[0]) : captured_;
  const Args args = eval_args(expr.args);
  heap_.work(Heap::kStep);
  line_ = expr.line;
  if (expr.filter == nullptr) fail("No filter named '" + expr.text->owned + "' found.");
  return expr.filter(*this, subject, args);
}

bool Interpreter::eval_test(const Expr& expr) {
  const Value subject = eval(*expr.children[0]);
  const Args args = eval_args(expr.args);
  line_ = expr.line;
  if (expr.test == nullptr) fail("No test named '" + expr.text->owned + "' found.");
  return expr.test(*this, subject, args);
}

Value Interpreter::eval_compare(const Expr& expr) {
  Value left = eval(*expr.children[0]);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    const Value right = eval(*expr.children[i + 1]);
    if (!compare(heap_, expr.ops[i], left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Interpreter::eval_concat(const Expr& expr) {
  Builder out(heap_);
  for (const Expr* child : expr.children) print(out, eval(*child));
  return out.finish();
}

Value Interpreter::lookup(Symbol symbol) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent)
    if (const Value* value = scope->find(symbol)) return *value;
  if (defined_[symbol]) return globals_[symbol];
  auto* absence = heap_.make<Absence>();
  absence->name = program_.names[symbol];
  return absence;
}

Value Interpreter::absent(const Value& owner, const Value& key) {
  auto* absence = heap_.make<Absence>();
  absence->type = owner_name(owner);
  absence->element = !key.is_string();
  if (key.is_string()) {
    absence->name = key.str().text.substr(0, code_point_offset(key.str().text.substr(0, 400), 100));
  } else if (key.is_number()) {
    absence->name = key.is(Kind::real) ? real_repr(key.as_real()) : std::to_string(key.as_integer());
  } else {
    absence->name = type_name(key);
  }
  return absence;
}

/// What Python's getattr finds: methods, a namespace's attributes, what callables offer. Not the items of a dict.
Value Interpreter::own_attribute(const Value& value, std::string_view name, bool& found) {
  found = true;
  if (value.is(Kind::space)) {
    if (const Value* known = value.space().find(name)) return *known;
  } else if (value.is(Kind::callable)) {
    Value result;
    if (value.callable().attribute(*this, name, result)) return result;
  } else if (value.is(Kind::list) && value.list().grouped && (name == "grouper" || name == "list")) {
    return value.list().items[name == "list"];
  } else if (const FilterFn fn = find_method(value, name)) {
    auto* method = heap_.make<Method>();
    method->self = value;
    method->fn = fn;
    method->name = name;
    return method;
  } else if (is_mutating_method(value, name)) {
    return heap_.absent("access to attribute '" + std::string(name) + "' of '" + std::string(type_name(value)) +
                        "' object is unsafe.");
  }
  found = false;
  return {};
}

Value Interpreter::attribute(const Value& value, const Str& name) {
  require_defined(value);
  bool found = false;
  const Value own = own_attribute(value, name.text, found);
  if (found) return own;
  if (value.is(Kind::dict))
    if (const Value* member = value.dict().find(name.text)) return *member;
  return absent(value, &name);
}

Value Interpreter::item(const Value& value, const Value& key) {
  require_defined(value);
  if (value.is(Kind::dict)) {
    const bool unhashable = key.is(Kind::dict) || (key.is(Kind::list) && key.list().flavor == Flavor::list);
    if (!unhashable)
      if (const Value* member = value.dict().find(heap_, key)) return *member;
  } else if (key.is_integral() &&
             (value.is_string() || (value.is(Kind::list) && value.list().flavor <= Flavor::range))) {
    const auto size = static_cast<std::int64_t>(length(heap_, value));
    std::int64_t at = key.as_integer();
    if (at < -size || at >= size) return absent(value, key);
    if (at < 0) at += size;
    if (value.is(Kind::list)) return value.list().items[static_cast<std::size_t>(at)];
    return slice(heap_, value, Value::integer(at), Value::integer(at + 1), Value::none());
  }
  if (key.is_string()) {
    bool found = false;
    const Value own = own_attribute(value, key.str().text, found);
    if (found) return own;
  }
  return absent(value, key);
}

}  // namespace colibri::jinja
