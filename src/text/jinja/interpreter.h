// SPDX-License-Identifier: Apache-2.0
// Runs a compiled template once: scopes, statements, expressions, calls.
// Invariant: one Interpreter is one render on one thread; it throws Fault and nothing else, and every loop, call and
// byte it makes is paid for from the heap's bounds.
#pragma once

#include <ctime>

#include "text/jinja/ast.h"

namespace colibri::jinja {

/// The variables of one block, found through its parents. Kept alive by the heap: macros hold on to theirs.
struct Scope final : Object {
  Scope* parent = nullptr;
  std::vector<std::pair<Symbol, Value>> variables;
  bool captured = false;  // a macro may look at it later: not to be reused

  const Value* find(Symbol symbol) const;
  void set(Symbol symbol, const Value& value);
};

struct Loop;
struct Macro;

class Interpreter {
 public:
  static constexpr std::size_t kMaxOutputBytes = std::size_t{4} << 20;
  static constexpr int kMaxDepth = 2000;     // of expressions and statements being evaluated
  static constexpr int kMaxCallDepth = 200;  // of macros calling macros

  Interpreter(const Program& program, Heap& heap, const std::tm& now);

  void define(std::string_view name, const Value& value);
  /// Renders into `out`.
  void run(Builder& out);

  Heap& heap() { return heap_; }
  const std::tm& now() const { return now_; }
  int line() const { return line_; }  // of the statement or call that ran last

  Value call(const Value& callee, const Args& args);
  Value call_macro(const Macro& macro, const Args& args);
  Value recurse(const Loop& loop, const Value& iterable);
  bool pull(Loop& loop, Value& item);  // the next item that passes the loop's test
  /// value.name and value[key], as the sandbox gives them: attributes first, or items first.
  Value attribute(const Value& value, const Str& name);
  Value item(const Value& value, const Value& key);

 private:
  enum class Flow : std::uint8_t { normal, break_, continue_ };
  struct Level;
  struct Capture;

  Flow run(const Body& body);
  Flow run(const Stmt& stmt);
  Flow run_if(const Stmt& stmt);
  Flow run_for(const Stmt& stmt, const Value& iterable, int depth);
  Flow run_block(const Stmt& stmt);
  Flow run_with(const Stmt& stmt);
  void run_call_block(const Stmt& stmt);
  void assign(const Target& target, const Value& value);

  Value eval(const Expr& expr);
  Value eval_list(const Expr& expr, Flavor flavor);
  Value eval_dict(const Expr& expr);
  Value eval_slice(const Expr& expr);
  Value eval_call(const Expr& expr);
  Value eval_filter(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_concat(const Expr& expr);
  bool eval_test(const Expr& expr);
  Args eval_args(const CallArgs& args);
  Value lookup(Symbol symbol);
  Value own_attribute(const Value& value, std::string_view name, bool& found);
  Value absent(const Value& owner, const Value& key);

  Scope* new_scope(Scope* parent);
  Macro* make_macro(const Stmt& stmt);

  const Program& program_;
  Heap& heap_;
  std::tm now_;
  std::vector<Value> globals_;  // by Symbol
  std::vector<bool> defined_;
  Scope* scope_ = nullptr;
  Builder* out_ = nullptr;
  Value captured_;  // the text of the block that a filter chain is about to work on
  int depth_ = 0;
  int call_depth_ = 0;
  int line_ = 0;
};

/// A macro, or the body of a call block, with the scope it was written in.
struct Macro final : Callable {
  const Stmt* stmt = nullptr;
  Scope* scope = nullptr;
  Value call(Interpreter& in, const Args& args) override { return in.call_macro(*this, args); }
  bool attribute(Interpreter& in, std::string_view name, Value& value) override;
  std::string describe() const override { return "<Macro '" + stmt->signature.name->owned + "'>"; }
};

/// The variable `loop`.
struct Loop final : Callable {
  const Stmt* stmt = nullptr;
  Scope* scope = nullptr;  // around the loop
  const List* items = nullptr;
  bool sized = false;     // `items` is exactly what the loop walks
  bool filtered = false;  // the test has been run on the items that are left
  std::size_t next = 0;
  std::int64_t index0 = -1;
  int depth0 = 0;
  Value before, current, after;
  bool has_after = false;
  bool changed_once = false;
  Value last_changed;

  bool peek(Interpreter& in);
  std::int64_t length(Interpreter& in);
  Value call(Interpreter& in, const Args& args) override;
  bool attribute(Interpreter& in, std::string_view name, Value& value) override;
  std::string describe() const override { return "<LoopContext>"; }
};

/// A method of `self`, looked up but not yet called.
struct Method final : Callable {
  Value self;
  FilterFn fn = nullptr;
  std::string name;
  Value call(Interpreter& in, const Args& args) override { return fn(in, self, args); }
  std::string describe() const override { return "<built-in method " + name + ">"; }
};

}  // namespace colibri::jinja
