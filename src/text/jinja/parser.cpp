// SPDX-License-Identifier: Apache-2.0
// Recursive descent, one function per level of Jinja's grammar. Nesting is counted: the tree that comes out can be
// walked by recursion on an ordinary stack.
//
// Length: one grammar; cutting it would spread mutually recursive functions over several files.
#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/lexer.h"
#include "text/jinja/library.h"

namespace colibri::jinja {
namespace {

constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;
constexpr int kMaxNesting = 100;  // of expressions in expressions, and of statements in statements
constexpr int kMaxHeight = 400;   // of an expression's tree: a long chain of + leans to the left

std::string describe(const Token& token) {
  switch (token.type) {
    case Tok::eof:
      return "end of template";
    case Tok::block_begin:
      return "begin of statement block";
    case Tok::block_end:
      return "end of statement block";
    case Tok::variable_begin:
      return "begin of print statement";
    case Tok::variable_end:
      return "end of print statement";
    case Tok::string:
      return "string";
    case Tok::data:
      return "template data";
    default:
      return token.text;
  }
}

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  std::shared_ptr<const Program> run() {
    program_->root = parse_body({});
    return std::move(program_);
  }

 private:
  /// Counts one level of nesting while it lives.
  struct Nested {
    explicit Nested(Parser& p) : parser(p) {
      if (++parser.nesting_ > kMaxNesting) parser.refuse("nested too deep");
    }
    ~Nested() { --parser.nesting_; }
    Parser& parser;
  };

  // Tokens.

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool at(Tok type) const { return current().type == type; }
  bool at_name(std::string_view name) const { return at(Tok::name) && current().text == name; }
  bool skip(Tok type) {
    if (!at(type)) return false;
    take();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!at_name(name)) return false;
    take();
    return true;
  }
  const Token& expect(Tok type, std::string_view what) {
    if (!at(type)) refuse("expected " + std::string(what) + ", got '" + describe(current()) + "'");
    return take();
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) refuse("expected '" + std::string(name) + "', got '" + describe(current()) + "'");
  }
  [[noreturn]] void refuse(const std::string& message) const { fail(message, current().line); }

  // Nodes.

  Expr* make(ExprKind kind, int line, std::initializer_list<const Expr*> children = {}) {
    Expr* expr = &program_->exprs.emplace_back();
    expr->kind = kind;
    expr->line = line;
    for (const Expr* child : children) add(*expr, child);
    return expr;
  }
  void add(Expr& expr, const Expr* child) {
    expr.children.push_back(child);
    raise(expr, child);
  }
  void raise(Expr& expr, const Expr* child) {
    if (child == nullptr) return;
    expr.height = std::max(expr.height, child->height + 1);
    if (expr.height > kMaxHeight) fail("the expression is nested too deep", expr.line);
  }
  Stmt* make_stmt(StmtKind kind, int line) {
    Stmt* stmt = &program_->stmts.emplace_back();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }
  const Str* text(const std::string& content) { return program_->constants.text(content); }

  // Statements.

  /// Statements up to a tag named in `ends`, which is left as the current token; to the end of the source without.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this);
    Body body;
    for (;;) {
      const Token& token = take();
      switch (token.type) {
        case Tok::data: {
          Stmt* stmt = make_stmt(StmtKind::text, token.line);
          stmt->text = text(token.text);
          body.push_back(stmt);
          break;
        }
        case Tok::variable_begin: {
          Stmt* stmt = make_stmt(StmtKind::output, token.line);
          stmt->expr = parse_tuple();
          expect(Tok::variable_end, "end of print statement");
          body.push_back(stmt);
          break;
        }
        case Tok::block_begin:
          if (at(Tok::name) && std::find(ends.begin(), ends.end(), current().text) != ends.end()) return body;
          parse_statement(body);
          expect(Tok::block_end, "end of statement block");
          break;
        default:
          if (ends.size() == 0) return body;
          refuse("unexpected end of template, expected '" + std::string(*ends.begin()) + "'");
      }
    }
  }

  /// The body of a tag whose own part has been read, up to one of `ends`.
  Body parse_block(std::initializer_list<std::string_view> ends) {
    skip(Tok::colon);
    expect(Tok::block_end, "end of statement block");
    return parse_body(ends);
  }
  /// The same, up to the one `end`, which is consumed. Filters unknown inside are refused at once unless in an `if`.
  Body parse_scope(std::string_view end) {
    const bool soft = std::exchange(soft_, false);
    Body body = parse_block({end});
    take();
    soft_ = soft;
    return body;
  }

  void parse_statement(Body& body) {
    const Token& token = expect(Tok::name, "a tag name");
    const std::string& tag = token.text;
    if (tag == "if") {
      body.push_back(parse_if(token.line));
    } else if (tag == "for") {
      body.push_back(parse_for(token.line));
    } else if (tag == "set") {
      body.push_back(parse_set(token.line));
    } else if (tag == "macro") {
      body.push_back(parse_macro(token.line));
    } else if (tag == "call") {
      body.push_back(parse_call_block(token.line));
    } else if (tag == "filter") {
      Stmt* stmt = make_stmt(StmtKind::filter_block, token.line);
      stmt->expr = parse_one_filter(nullptr);
      while (skip(Tok::pipe)) stmt->expr = parse_one_filter(stmt->expr);
      stmt->body = parse_scope("endfilter");
      body.push_back(stmt);
    } else if (tag == "with") {
      body.push_back(parse_with(token.line));
    } else if (tag == "generation") {  // marks what the assistant wrote, for training; a scope of its own
      Stmt* stmt = make_stmt(StmtKind::scope, token.line);
      const int loops = std::exchange(loops_, 0);
      stmt->body = parse_scope("endgeneration");
      loops_ = loops;
      body.push_back(stmt);
    } else if (tag == "print") {
      do {
        Stmt* stmt = make_stmt(StmtKind::output, token.line);
        stmt->expr = parse_expression();
        body.push_back(stmt);
      } while (skip(Tok::comma));
    } else if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail("'" + tag + "' outside loop", token.line);
      body.push_back(make_stmt(tag == "break" ? StmtKind::break_ : StmtKind::continue_, token.line));
    } else if (tag == "include" || tag == "import" || tag == "from" || tag == "extends" || tag == "block" ||
               tag == "autoescape") {
      fail("the tag '" + tag + "' is not supported in chat templates", token.line);
    } else {
      fail("unknown tag '" + tag + "'", token.line);
    }
  }

  Stmt* parse_if(int line) {
    const bool soft = std::exchange(soft_, true);
    Stmt* stmt = make_stmt(StmtKind::if_, line);
    for (;;) {
      const Expr* test = parse_tuple(false);
      stmt->branches.emplace_back(test, parse_block({"endif", "elif", "else"}));
      const std::string& tag = take().text;
      if (tag == "elif") continue;
      if (tag == "else") {
        stmt->otherwise = parse_block({"endif"});
        take();
      }
      break;
    }
    soft_ = soft;
    return stmt;
  }

  Stmt* parse_for(int line) {
    const bool soft = std::exchange(soft_, false);
    Stmt* stmt = make_stmt(StmtKind::for_, line);
    stmt->target = parse_target(false, true);
    expect_name("in");
    stmt->expr = parse_tuple(false, "recursive");
    if (skip_name("if")) stmt->test = parse_expression();
    stmt->recursive = skip_name("recursive");
    ++loops_;
    ++for_depth_;
    stmt->body = parse_block({"endfor", "else"});
    --for_depth_;
    --loops_;
    if (take().text == "else") {
      stmt->otherwise = parse_block({"endfor"});
      take();
    }
    soft_ = soft;
    return stmt;
  }

  Stmt* parse_set(int line) {
    Stmt* stmt = make_stmt(StmtKind::set, line);
    stmt->target = parse_target(true);
    if (skip(Tok::assign)) {
      stmt->expr = parse_tuple();
      return stmt;
    }
    stmt->kind = StmtKind::set_block;
    while (skip(Tok::pipe)) stmt->expr = parse_one_filter(stmt->expr);
    stmt->body = parse_scope("endset");
    return stmt;
  }

  Stmt* parse_with(int line) {
    Stmt* stmt = make_stmt(StmtKind::with, line);
    while (!at(Tok::block_end)) {
      if (!stmt->bindings.empty()) expect(Tok::comma, "','");
      Target target = parse_target(false);
      expect(Tok::assign, "'='");
      stmt->bindings.emplace_back(std::move(target), parse_expression());
    }
    stmt->body = parse_scope("endwith");
    return stmt;
  }

  Stmt* parse_macro(int line) {
    Stmt* stmt = make_stmt(StmtKind::macro, line);
    const Token& name = expect(Tok::name, "a macro name");
    require_assignable(name);
    stmt->target.symbol = program_->intern(name.text);
    stmt->signature.name = text(name.text);
    expect(Tok::lparen, "'('");
    parse_signature(stmt->signature);
    parse_function(*stmt, "endmacro");
    return stmt;
  }

  Stmt* parse_call_block(int line) {
    Stmt* stmt = make_stmt(StmtKind::call_block, line);
    stmt->signature.name = text("caller");
    if (skip(Tok::lparen)) parse_signature(stmt->signature);
    stmt->expr = parse_expression();
    if (stmt->expr->kind != ExprKind::call) fail("expected call", line);
    parse_function(*stmt, "endcall");
    return stmt;
  }

  /// A body that runs when called: what it says of caller, varargs and kwargs becomes part of its signature.
  void parse_function(Stmt& stmt, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    functions_.push_back(&stmt.signature);
    stmt.body = parse_scope(end);
    functions_.pop_back();
    loops_ = loops;
  }

  void parse_signature(Signature& signature) {
    while (!at(Tok::rparen)) {
      if (!signature.parameters.empty()) expect(Tok::comma, "','");
      const Token& name = expect(Tok::name, "a parameter name");
      require_assignable(name);
      const Expr* otherwise = nullptr;
      if (skip(Tok::assign)) {
        otherwise = parse_expression();
      } else if (!signature.parameters.empty() && signature.parameters.back().second != nullptr) {
        refuse("non-default argument follows default argument");
      }
      signature.parameters.emplace_back(program_->intern(name.text), otherwise);
      signature.parameter_names.push_back(text(name.text));
    }
    take();
  }

  void require_assignable(const Token& name) const {
    for (const std::string_view word : {"true", "false", "none", "True", "False", "None"})
      if (name.text == word) fail("can't assign to '" + name.text + "'", name.line);
  }

  /// One target, or a tuple of them without parentheses.
  Target parse_target(bool with_namespace, bool until_in = false) {
    const Nested nested(*this);
    Target first = parse_one_target(with_namespace);
    if (!at(Tok::comma)) return first;
    Target tuple;
    tuple.parts.push_back(std::move(first));
    while (skip(Tok::comma)) {
      if (at(Tok::rparen) || at(Tok::assign) || at(Tok::block_end) || (until_in && at_name("in"))) break;
      tuple.parts.push_back(parse_one_target(with_namespace));
    }
    return tuple;
  }
  Target parse_one_target(bool with_namespace) {
    if (skip(Tok::lparen)) {
      Target inner = parse_target(with_namespace);
      expect(Tok::rparen, "')'");
      return inner;
    }
    const Token& name = expect(Tok::name, "a name to assign to");
    require_assignable(name);
    if (name.text == "loop" && for_depth_ > 0) fail("can't assign to the loop variable inside a loop", name.line);
    Target target;
    target.symbol = program_->intern(name.text);
    if (with_namespace && skip(Tok::dot)) target.attribute = text(expect(Tok::name, "an attribute name").text);
    return target;
  }

  // Expressions, loosest binding first.

  const Expr* parse_tuple(bool with_conditional = true, std::string_view end = {}, bool parenthesised = false) {
    const int line = current().line;
    const auto at_end = [&] {
      return at(Tok::variable_end) || at(Tok::block_end) || at(Tok::rparen) || (!end.empty() && at_name(end));
    };
    const auto parse_item = [&] { return with_conditional ? parse_expression() : parse_or(); };
    if (at_end()) {
      if (!parenthesised) refuse("expected an expression, got '" + describe(current()) + "'");
      return make(ExprKind::tuple, line);
    }
    const Expr* first = parse_item();
    if (!at(Tok::comma)) return first;
    Expr* tuple = make(ExprKind::tuple, line, {first});
    while (skip(Tok::comma) && !at_end()) add(*tuple, parse_item());
    return tuple;
  }

  const Expr* parse_expression() {
    const Nested nested(*this);
    const int line = current().line;
    const Expr* expr = parse_or();
    while (skip_name("if")) {
      const bool soft = std::exchange(soft_, true);
      const Expr* test = parse_or();
      const Expr* otherwise = skip_name("else") ? parse_expression() : nullptr;
      soft_ = soft;
      expr = make(ExprKind::conditional, line, {test, expr, otherwise});
    }
    return expr;
  }

  const Expr* parse_or() {
    const Expr* left = parse_and();
    while (skip_name("or")) left = make_op(ExprKind::logic, Op::logical_or, {left, parse_and()});
    return left;
  }
  const Expr* parse_and() {
    const Expr* left = parse_not();
    while (skip_name("and")) left = make_op(ExprKind::logic, Op::logical_and, {left, parse_not()});
    return left;
  }
  const Expr* parse_not() {
    if (!skip_name("not")) return parse_compare();
    const Nested nested(*this);
    return make_op(ExprKind::unary, Op::logical_not, {parse_not()});
  }
  Expr* make_op(ExprKind kind, Op op, std::initializer_list<const Expr*> children) {
    Expr* expr = make(kind, current().line, children);
    expr->op = op;
    return expr;
  }

  const Expr* parse_compare() {
    const Expr* left = parse_sum();
    Expr* chain = nullptr;
    for (;;) {
      Op op{};
      if (current().type >= Tok::eq && current().type <= Tok::lteq) {
        static constexpr Op kOps[] = {Op::eq, Op::ne, Op::gt, Op::gteq, Op::lt, Op::lteq};  // in the order of Tok
        op = kOps[static_cast<int>(take().type) - static_cast<int>(Tok::eq)];
      } else if (skip_name("in")) {
        op = Op::in;
      } else if (at_name("not") && look().type == Tok::name && look().text == "in") {
        take();
        take();
        op = Op::notin;
      } else {
        return chain != nullptr ? chain : left;
      }
      if (chain == nullptr) chain = make(ExprKind::compare, current().line, {left});
      chain->ops.push_back(op);
      add(*chain, parse_sum());
    }
  }

  const Expr* parse_sum() {
    const Expr* left = parse_concat();
    while (at(Tok::add) || at(Tok::sub)) {
      const Op op = take().type == Tok::add ? Op::add : Op::sub;
      left = make_op(ExprKind::binary, op, {left, parse_concat()});
    }
    return left;
  }
  const Expr* parse_concat() {
    const Expr* first = parse_product();
    if (!at(Tok::tilde)) return first;
    Expr* concat = make(ExprKind::concat, current().line, {first});
    while (skip(Tok::tilde)) add(*concat, parse_product());
    return concat;
  }
  const Expr* parse_product() {
    const Expr* left = parse_power();
    for (;;) {
      Op op{};
      switch (current().type) {
        case Tok::mul:
          op = Op::mul;
          break;
        case Tok::div:
          op = Op::div;
          break;
        case Tok::floordiv:
          op = Op::floordiv;
          break;
        case Tok::mod:
          op = Op::mod;
          break;
        default:
          return left;
      }
      take();
      left = make_op(ExprKind::binary, op, {left, parse_power()});
    }
  }
  const Expr* parse_power() {  // to the left, as Jinja has it
    const Expr* left = parse_unary(true);
    while (skip(Tok::pow)) left = make_op(ExprKind::binary, Op::pow, {left, parse_unary(true)});
    return left;
  }
  const Expr* parse_unary(bool with_filter) {
    const Expr* expr = nullptr;
    if (at(Tok::sub) || at(Tok::add)) {
      const Nested nested(*this);
      const Op op = take().type == Tok::sub ? Op::negative : Op::positive;
      expr = make_op(ExprKind::unary, op, {parse_unary(false)});
    } else {
      expr = parse_primary();
    }
    expr = parse_postfix(expr);
    return with_filter ? parse_filters(expr) : expr;
  }

  const Expr* parse_primary() {
    const Token& token = take();
    switch (token.type) {
      case Tok::name:
        return parse_name(token);
      case Tok::string: {
        std::string content = token.text;
        while (at(Tok::string)) content += take().text;
        const Str* str = text(content);
        program_->strings.push_back(str);
        return constant(token.line, str);
      }
      case Tok::integer:
        return constant(token.line, Value::integer(token.integer));
      case Tok::real:
        return constant(token.line, Value::real(token.real));
      case Tok::lparen: {
        const Expr* inner = parse_tuple(true, {}, true);
        expect(Tok::rparen, "')'");
        return inner;
      }
      case Tok::lbracket: {
        Expr* list = make(ExprKind::list, token.line);
        while (!at(Tok::rbracket)) {
          if (!list->children.empty()) expect(Tok::comma, "','");
          if (!at(Tok::rbracket)) add(*list, parse_expression());
        }
        take();
        return list;
      }
      case Tok::lbrace: {
        Expr* dict = make(ExprKind::dict, token.line);
        while (!at(Tok::rbrace)) {
          if (!dict->children.empty()) expect(Tok::comma, "','");
          if (at(Tok::rbrace)) break;
          add(*dict, parse_expression());
          expect(Tok::colon, "':'");
          add(*dict, parse_expression());
        }
        take();
        return dict;
      }
      default:
        fail("unexpected '" + describe(token) + "'", token.line);
    }
  }

  const Expr* constant(int line, const Value& value) {
    Expr* expr = make(ExprKind::constant, line);
    expr->value = value;
    return expr;
  }

  const Expr* parse_name(const Token& token) {
    const std::string& name = token.text;
    if (name == "true" || name == "True") return constant(token.line, Value::boolean(true));
    if (name == "false" || name == "False") return constant(token.line, Value::boolean(false));
    if (name == "none" || name == "None") return constant(token.line, Value::none());
    for (Signature* function : functions_) {
      function->uses_caller |= name == "caller";
      function->uses_varargs |= name == "varargs";
      function->uses_kwargs |= name == "kwargs";
    }
    Expr* expr = make(ExprKind::name, token.line);
    expr->symbol = program_->intern(name);
    return expr;
  }

  const Expr* parse_postfix(const Expr* expr) {
    for (;;) {
      if (at(Tok::dot)) {
        const int line = take().line;
        if (at(Tok::integer)) {
          expr = make(ExprKind::item, line, {expr, constant(line, Value::integer(take().integer))});
        } else {
          Expr* attribute = make(ExprKind::attribute, line, {expr});
          attribute->text = text(expect(Tok::name, "a name or number").text);
          expr = attribute;
        }
      } else if (at(Tok::lbracket)) {
        expr = parse_subscript(expr);
      } else if (at(Tok::lparen)) {
        expr = parse_call(expr);
      } else {
        return expr;
      }
    }
  }

  const Expr* parse_subscript(const Expr* subject) {
    const int line = take().line;
    const Expr* first = at(Tok::colon) ? nullptr : parse_expression();
    if (skip(Tok::colon)) {
      const auto bound = [&] { return at(Tok::rbracket) || at(Tok::colon) ? nullptr : parse_expression(); };
      const Expr* end = bound();
      const Expr* step = skip(Tok::colon) ? bound() : nullptr;
      expect(Tok::rbracket, "']'");
      return make(ExprKind::slice, line, {subject, first, end, step});
    }
    if (at(Tok::comma)) {
      Expr* tuple = make(ExprKind::tuple, line, {first});
      while (skip(Tok::comma)) add(*tuple, parse_expression());
      first = tuple;
    }
    expect(Tok::rbracket, "']'");
    return make(ExprKind::item, line, {subject, first});
  }

  const Expr* parse_call(const Expr* callee) {
    Expr* call = make(ExprKind::call, current().line, {callee});
    parse_args(*call);
    return call;
  }

  void parse_args(Expr& expr) {
    CallArgs& args = expr.args;
    const int line = expect(Tok::lparen, "'('").line;
    const auto ensure = [&](bool ok) {
      if (!ok) fail("invalid syntax for function call expression", line);
    };
    bool first = true;
    while (!at(Tok::rparen)) {
      if (!std::exchange(first, false)) {
        expect(Tok::comma, "','");
        if (at(Tok::rparen)) break;
      }
      const Expr* value = nullptr;
      if (skip(Tok::mul)) {
        ensure(args.star == nullptr && args.double_star == nullptr);
        args.star = value = parse_expression();
      } else if (skip(Tok::pow)) {
        ensure(args.double_star == nullptr);
        args.double_star = value = parse_expression();
      } else if (at(Tok::name) && look().type == Tok::assign) {
        ensure(args.double_star == nullptr);
        const Str* name = text(take().text);
        take();
        value = parse_expression();
        for (const auto& known : args.named)
          if (known.first->text == name->text) fail("keyword argument repeated: " + name->owned, line);
        args.named.emplace_back(name, value);
      } else {
        ensure(args.star == nullptr && args.double_star == nullptr && args.named.empty());
        args.positional.push_back(value = parse_expression());
      }
      raise(expr, value);
    }
    take();
  }

  const Expr* parse_filters(const Expr* expr) {
    for (;;) {
      if (skip(Tok::pipe)) {
        expr = parse_one_filter(expr);
      } else if (skip_name("is")) {
        expr = parse_test(expr);
      } else if (at(Tok::lparen)) {
        expr = parse_call(expr);
      } else {
        return expr;
      }
    }
  }

  const Token& parse_dotted_name(std::string& name) {
    const Token& token = expect(Tok::name, "a name");
    name = token.text;
    while (skip(Tok::dot)) name += "." + expect(Tok::name, "a name").text;
    return token;
  }

  const Expr* parse_one_filter(const Expr* subject) {
    std::string name;
    const int line = parse_dotted_name(name).line;
    Expr* filter = make(ExprKind::filter, line, {subject});
    filter->text = text(name);
    filter->filter = find_filter(name);
    if (filter->filter == nullptr && !soft_) fail("no filter named '" + name + "'", line);
    if (at(Tok::lparen)) parse_args(*filter);
    return filter;
  }

  const Expr* parse_test(const Expr* subject) {
    const bool negated = skip_name("not");
    std::string name;
    const int line = parse_dotted_name(name).line;
    Expr* test = make(ExprKind::test, line, {subject});
    test->text = text(name);
    test->test = find_test(name);
    if (test->test == nullptr && !soft_) fail("no test named '" + name + "'", line);
    if (at(Tok::lparen)) {
      parse_args(*test);
    } else if ((at(Tok::name) && !at_name("else") && !at_name("or") && !at_name("and")) || at(Tok::string) ||
               at(Tok::integer) || at(Tok::real) || at(Tok::lbracket) || at(Tok::lbrace)) {
      if (at_name("is")) refuse("You cannot chain multiple tests with is");
      const Nested nested(*this);
      const Expr* arg = parse_postfix(parse_primary());
      test->args.positional.push_back(arg);
      raise(*test, arg);
    }
    return negated ? make_op(ExprKind::unary, Op::logical_not, {test}) : test;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;      // around the current tag, within the current function
  int for_depth_ = 0;  // the same, through functions
  bool soft_ = false;  // inside an `if`: a filter that does not exist fails only when it is reached
  std::vector<Signature*> functions_;
  std::shared_ptr<Program> program_ = std::make_shared<Program>();
};

}  // namespace

Program::Program() : constants(std::size_t{64} << 20, std::size_t{1} << 40) {}

Symbol Program::intern(std::string_view name) {
  if (const auto known = symbols.find(name); known != symbols.end()) return known->second;
  const auto symbol = static_cast<Symbol>(names.size());
  symbols.emplace(names.emplace_back(name), symbol);
  return symbol;
}

std::shared_ptr<const Program> parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) fail("the template is larger than 1 MiB");
  return Parser(source).run();
}

}  // namespace colibri::jinja
