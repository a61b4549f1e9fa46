// SPDX-License-Identifier: Apache-2.0
// Statements and scopes. `if` shares its surrounding scope; loops, macros and captured blocks have their own.
#include "text/jinja/interpreter.h"

#include "text/jinja/library.h"
#include "text/jinja/print.h"

namespace colibri::jinja {

const Value* Scope::find(Symbol symbol) const {
  for (const auto& [name, value] : variables)
    if (name == symbol) return &value;
  return nullptr;
}

void Scope::set(Symbol symbol, const Value& value) {
  for (auto& [name, known] : variables)
    if (name == symbol) {
      known = value;
      return;
    }
  variables.emplace_back(symbol, value);
}

/// Counts one level of evaluation, and restores what a block changes, also when a Fault passes through.
struct Interpreter::Level {
  explicit Level(Interpreter& interpreter) : in(interpreter), scope(in.scope_) {
    if (++in.depth_ > kMaxDepth) fail_limit("the recursion is too deep");
  }
  ~Level() {
    --in.depth_;
    in.scope_ = scope;
  }
  Interpreter& in;
  Scope* scope;
};

/// Sends output to a text of its own while it lives.
struct Interpreter::Capture {
  explicit Capture(Interpreter& interpreter)
      : in(interpreter), text(in.heap_, kMaxOutputBytes), outer(std::exchange(in.out_, &text)) {}
  ~Capture() { in.out_ = outer; }
  Interpreter& in;
  Builder text;
  Builder* outer;
};

Interpreter::Interpreter(const Program& program, Heap& heap, const std::tm& now)
    : program_(program), heap_(heap), now_(now), globals_(program.names.size()), defined_(program.names.size()) {
  define_globals(*this);
}

void Interpreter::define(std::string_view name, const Value& value) {
  const auto symbol = program_.symbols.find(name);
  if (symbol == program_.symbols.end()) return;  // the template never asks
  globals_[symbol->second] = value;
  defined_[symbol->second] = true;
}

void Interpreter::run(Builder& out) {
  out_ = &out;
  scope_ = new_scope(nullptr);
  run(program_.root);
}

Scope* Interpreter::new_scope(Scope* parent) {
  auto* scope = heap_.make<Scope>();
  scope->parent = parent;
  return scope;
}

Interpreter::Flow Interpreter::run(const Body& body) {
  for (const Stmt* stmt : body)
    if (const Flow flow = run(*stmt); flow != Flow::normal) return flow;
  return Flow::normal;
}

Interpreter::Flow Interpreter::run(const Stmt& stmt) {
  heap_.work(Heap::kStep);
  line_ = stmt.line;
  const Level level(*this);
  switch (stmt.kind) {
    case StmtKind::text:
      out_->add(*stmt.text);
      return Flow::normal;
    case StmtKind::output:
      print(*out_, eval(*stmt.expr));
      return Flow::normal;
    case StmtKind::if_:
      return run_if(stmt);
    case StmtKind::for_:
      return run_for(stmt, eval(*stmt.expr), 0);
    case StmtKind::set:
      assign(stmt.target, eval(*stmt.expr));
      return Flow::normal;
    case StmtKind::set_block:
    case StmtKind::filter_block:
      return run_block(stmt);
    case StmtKind::macro:
      scope_->set(stmt.target.symbol, make_macro(stmt));
      return Flow::normal;
    case StmtKind::call_block:
      run_call_block(stmt);
      return Flow::normal;
    case StmtKind::with:
      return run_with(stmt);
    case StmtKind::scope:
      scope_ = new_scope(scope_);
      return run(stmt.body);
    case StmtKind::break_:
      return Flow::break_;
    case StmtKind::continue_:
      return Flow::continue_;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt) {
  for (const auto& [test, body] : stmt.branches)
    if (truthy(eval(*test))) return run(body);
  return run(stmt.otherwise);
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt, const Value& iterable, int depth) {
  Scope* outer = scope_;
  auto* loop = heap_.make<Loop>();
  loop->stmt = &stmt;
  loop->scope = outer;
  loop->items = &iterate(heap_, iterable);
  loop->sized = stmt.test == nullptr;
  loop->depth0 = depth;
  const auto name = program_.symbols.find("loop");
  const bool named = name != program_.symbols.end();

  bool completed = false;  // a body ran to its end: Jinja's else looks at that, not at the number of items
  Scope* scope = new_scope(outer);
  for (;;) {
    Value item;
    if (loop->has_after) {
      item = loop->after;
      loop->has_after = false;
    } else if (!pull(*loop, item)) {
      break;
    }
    ++loop->index0;
    loop->before = std::exchange(loop->current, item);
    heap_.work(Heap::kStep);
    if (scope->captured) {
      scope = new_scope(outer);
    } else {
      scope->variables.clear();
    }
    scope_ = scope;
    if (named) scope->set(name->second, loop);
    assign(stmt.target, item);
    const Flow flow = run(stmt.body);
    completed |= flow == Flow::normal;
    if (flow == Flow::break_) break;
  }
  scope_ = outer;
  if (completed || stmt.otherwise.empty()) return Flow::normal;
  scope_ = new_scope(outer);
  return run(stmt.otherwise);
}

bool Interpreter::pull(Loop& loop, Value& item) {
  while (loop.next < loop.items->items.size()) {
    item = loop.items->items[loop.next++];
    if (loop.stmt->test == nullptr || loop.filtered) return true;
    heap_.work(Heap::kStep);
    const Level level(*this);
    scope_ = new_scope(loop.scope);
    assign(loop.stmt->target, item);
    if (truthy(eval(*loop.stmt->test))) return true;
  }
  return false;
}

Value Interpreter::recurse(const Loop& loop, const Value& iterable) {
  if (!loop.stmt->recursive) fail("The loop must have the 'recursive' marker to be called recursively.");
  if (call_depth_ >= kMaxCallDepth) fail_limit("loops call themselves too deep");
  ++call_depth_;
  const Level level(*this);
  Capture capture(*this);
  scope_ = loop.scope;
  run_for(*loop.stmt, iterable, loop.depth0 + 1);
  --call_depth_;
  return capture.text.finish();
}

Interpreter::Flow Interpreter::run_block(const Stmt& stmt) {
  Value value;
  {
    const Level level(*this);
    Capture capture(*this);
    scope_ = new_scope(scope_);
    if (const Flow flow = run(stmt.body); flow != Flow::normal) return flow;
    value = capture.text.finish();
  }
  if (stmt.expr != nullptr) {
    captured_ = value;
    value = eval(*stmt.expr);
  }
  if (stmt.kind == StmtKind::filter_block) {
    print(*out_, value);
  } else {
    assign(stmt.target, value);
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.bindings) values.push_back(eval(*expr));
  scope_ = new_scope(scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(stmt.bindings[i].first, values[i]);
  return run(stmt.body);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) {
    const List& items = iterate(heap_, value);
    if (items.items.size() != target.parts.size())
      fail("cannot unpack " + std::to_string(items.items.size()) + " values into " +
           std::to_string(target.parts.size()));
    for (std::size_t i = 0; i < target.parts.size(); ++i) assign(target.parts[i], items.items[i]);
    return;
  }
  heap_.charge(sizeof(Value));
  if (target.attribute == nullptr) {
    scope_->set(target.symbol, value);
    return;
  }
  const Value owner = lookup(target.symbol);
  if (!owner.is(Kind::space)) fail("cannot assign attribute on non-namespace object");
  if (Value* known = owner.space().find(target.attribute->text)) {
    *known = value;
  } else {
    owner.space().attributes.emplace_back(target.attribute->text, value);
  }
}

Macro* Interpreter::make_macro(const Stmt& stmt) {
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
  auto* macro = heap_.make<Macro>();
  macro->stmt = &stmt;
  macro->scope = scope_;
  return macro;
}

void Interpreter::run_call_block(const Stmt& stmt) {
  const Expr& call_expr = *stmt.expr;
  const Value callee = eval(*call_expr.children[0]);
  Args args = eval_args(call_expr.args);
  args.named.emplace_back("caller", make_macro(stmt));
  print(*out_, call(callee, args));
}

Value Interpreter::call_macro(const Macro& macro, const Args& args) {
  const Signature& signature = macro.stmt->signature;
  if (call_depth_ >= kMaxCallDepth) fail_limit("macros call each other too deep");
  ++call_depth_;
  const Level level(*this);
  Capture capture(*this);
  Scope* scope = new_scope(macro.scope);
  scope_ = scope;
  const std::size_t n = signature.parameters.size();
  std::vector<bool> taken(args.named.size());
  for (std::size_t i = 0; i < n; ++i) {
    const auto& [symbol, otherwise] = signature.parameters[i];
    const std::string_view name = signature.parameter_names[i]->text;
    if (i < args.positional.size()) {
      scope->set(symbol, args.positional[i]);
      continue;
    }
    std::size_t given = 0;
    while (given < args.named.size() && args.named[given].first != name) ++given;
    if (given < args.named.size()) {
      taken[given] = true;
      scope->set(symbol, args.named[given].second);
    } else if (otherwise != nullptr) {
      scope->set(symbol, eval(*otherwise));
    } else {
      scope->set(symbol, heap_.absent("parameter '" + std::string(name) + "' was not provided"));
    }
  }
  const auto set_special = [&](const char* name, const Value& value) {
    scope->set(program_.symbols.find(name)->second, value);  // the body names it, so it is interned
  };
  Value caller = heap_.absent("No caller defined");
  Dict* rest = heap_.dict();
  for (std::size_t i = 0; i < args.named.size(); ++i) {
    if (taken[i]) continue;
    if (args.named[i].first == "caller" && signature.uses_caller) {
      caller = args.named[i].second;
    } else if (signature.uses_kwargs) {
      heap_.set(*rest, heap_.view(args.named[i].first), args.named[i].second);
    } else {
      fail("macro '" + signature.name->owned + "' takes no keyword argument '" + std::string(args.named[i].first) +
           "'");
    }
  }
  const auto is_parameter = [&](std::string_view name) {
    for (const Str* parameter : signature.parameter_names)
      if (parameter->text == name) return true;
    return false;
  };
  if (signature.uses_caller && !is_parameter("caller")) set_special("caller", caller);
  if (signature.uses_kwargs && !is_parameter("kwargs")) set_special("kwargs", rest);
  if (signature.uses_varargs && !is_parameter("varargs")) {
    List* extra = heap_.list(Flavor::tuple);
    for (std::size_t i = n; i < args.positional.size(); ++i) heap_.push(*extra, args.positional[i]);
    set_special("varargs", extra);
  } else if (args.positional.size() > n) {
    fail("macro '" + signature.name->owned + "' takes not more than " + std::to_string(n) + " argument(s)");
  }
  run(macro.stmt->body);
  --call_depth_;
  return capture.text.finish();
}

}  // namespace colibri::jinja
