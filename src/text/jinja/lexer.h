// SPDX-License-Identifier: Apache-2.0
// Template source to tokens, with the white space rules of trim_blocks and lstrip_blocks, which chat templates expect.
// Invariant: the last token is `eof`; every token carries its line, counted from 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colibri::jinja {

enum class Tok : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  eof,
  add,
  sub,
  mul,
  div,
  floordiv,
  mod,
  pow,
  tilde,
  lbracket,
  rbracket,
  lparen,
  rparen,
  lbrace,
  rbrace,
  eq,
  ne,
  gt,
  gteq,
  lt,
  lteq,
  assign,
  dot,
  colon,
  pipe,
  comma,
  semicolon,
};

struct Token {
  Tok type = Tok::eof;
  int line = 1;
  std::string text;  // of data, name and string (escapes undone); as written for operators
  std::int64_t integer = 0;
  double real = 0;
};

/// Throws Fault with the line on a source that Jinja2 would not tokenise.
std::vector<Token> tokenize(std::string_view source);

}  // namespace colibri::jinja
