// SPDX-License-Identifier: Apache-2.0
// The tree of a compiled template. Immutable once parsed; shared by all threads that render it.
// Invariant: nodes and constants live in the Program and are pointed to freely; the depth of the tree is bounded by the
// parser, so that walking it may recurse.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace colibri::jinja {

using Symbol = std::uint32_t;  // an interned name

using FilterFn = Value (*)(Interpreter& in, const Value& subject, const Args& args);
using TestFn = bool (*)(Interpreter& in, const Value& subject, const Args& args);

enum class ExprKind : std::uint8_t {
  constant,
  name,
  list,
  tuple,
  dict,       // dict: keys and values alternate in `children`
  attribute,  // children[0].text
  item,
  slice,  // children: subject, index | subject, begin, end, step (null where open)
  call,
  filter,
  test,  // children[0] is the callee or the subject (null: the captured block)
  unary,
  binary,
  logic,
  compare,  // compare: children[0] ops[0] children[1] ops[1] children[2] ...
  concat,
  conditional,  // conditional: test, then, else (null where left out)
};

struct Expr;

struct CallArgs {
  std::vector<const Expr*> positional;
  std::vector<std::pair<const Str*, const Expr*>> named;
  const Expr* star = nullptr;
  const Expr* double_star = nullptr;
};

struct Expr {
  ExprKind kind{};
  Op op{};
  int line = 0;
  int height = 1;  // of the tree below, leaves are 1
  Symbol symbol = 0;
  const Str* text = nullptr;  // attribute, filter or test name
  Value value;
  std::vector<const Expr*> children;
  std::vector<Op> ops;
  CallArgs args;
  FilterFn filter = nullptr;  // null: unknown, fails when reached
  TestFn test = nullptr;
};

/// What an assignment writes to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  Symbol symbol = 0;
  const Str* attribute = nullptr;
  std::vector<Target> parts;
};

struct Stmt;
using Body = std::vector<const Stmt*>;

struct Signature {
  const Str* name = nullptr;
  std::vector<std::pair<Symbol, const Expr*>> parameters;  // with the default, or null
  std::vector<const Str*> parameter_names;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

enum class StmtKind : std::uint8_t {
  text,
  output,
  if_,
  for_,
  set,
  set_block,
  macro,
  call_block,
  filter_block,
  with,
  scope,
  break_,
  continue_,
};

struct Stmt {
  StmtKind kind{};
  int line = 0;
  const Str* text = nullptr;
  const Expr* expr = nullptr;  // output, iterable, assigned value, macro call, filter chain
  const Expr* test = nullptr;  // of a loop's items
  Target target;
  Body body;
  Body otherwise;                                        // else of if and for
  std::vector<std::pair<const Expr*, Body>> branches;    // of if and its elifs
  std::vector<std::pair<Target, const Expr*>> bindings;  // of with
  Signature signature;
  bool recursive = false;
};

struct Program {
  Program();

  Heap constants;
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  Body root;
  std::deque<std::string> names;  // by Symbol
  std::unordered_map<std::string_view, Symbol> symbols;
  std::vector<const Str*> strings;  // every string literal, for those who ask what a template knows

  Symbol intern(std::string_view name);
};

}  // namespace colibri::jinja
