// SPDX-License-Identifier: Apache-2.0
// One pass over the source. Text outside tags is kept whole; what a tag strips from its neighbours is decided where the
// tag begins (to the left) and where it ends (to the right).
#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/fault.h"
#include "text/jinja/unicode.h"
#include "text/utf8.h"

namespace colibri::jinja {
namespace {

constexpr auto npos = std::string_view::npos;

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();  // one trailing newline is not part of the template
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_root();
    push(Tok::eof, "");
    return std::move(tokens_);
  }

 private:
  bool starts(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  /// Moves to `to`, counting lines.
  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    line_starting_ = to > at_ ? source_[to - 1] == '\n' : false;
    at_ = to;
  }

  Token& push(Tok type, std::string text) {
    Token& token = tokens_.emplace_back();
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    return token;
  }

  /// Emits the text up to `tag`, stripped as the tag's sign and kind ask.
  void push_data(std::size_t tag, char sign, bool is_variable) {
    std::string_view text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      text.remove_suffix(trailing_space(text));
    } else if (sign != '+' && !is_variable) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line = newline == npos ? 0 : newline + 1;
      if ((line > 0 || line_starting_) && leading_space(text.substr(line)) == text.size() - line)
        text = text.substr(0, line);
    }
    if (!text.empty()) push(Tok::data, std::string(text));
    advance(tag);
  }

  static char sign_at(std::string_view source, std::size_t at) {
    return at < source.size() && (source[at] == '-' || source[at] == '+') ? source[at] : '\0';
  }

  void read_root() {
    std::size_t tag = at_;
    while ((tag = source_.find('{', tag)) != npos) {
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    if (tag == npos) {
      push(Tok::data, std::string(source_.substr(at_)));
      advance(source_.size());
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(source_, tag + 2);
    push_data(tag, sign, kind == '{');
    const std::size_t inside = tag + 2 + (sign != '\0');
    if (kind == '#') {
      read_comment(inside);
    } else if (kind == '{') {
      push(Tok::variable_begin, "");
      advance(inside);
      read_tag(Tok::variable_end, "}}");
    } else if (const std::size_t body = raw_body(inside); body != npos) {
      read_raw(body);
    } else {
      push(Tok::block_begin, "");
      advance(inside);
      read_tag(Tok::block_end, "%}");
    }
  }

  std::size_t skip_space(std::size_t from) const { return from + leading_space(source_.substr(from)); }

  /// Where the text after an opening tag's end goes on: after '-' behind all white space, after a plain end behind one
  /// newline where `trim` says so.
  std::size_t after_end(std::size_t end, char sign, bool trim) const {
    if (sign == '-') return skip_space(end);
    if (sign == '\0' && trim && end < source_.size() && source_[end] == '\n') return end + 1;
    return end;
  }

  void read_comment(std::size_t inside) {
    const std::size_t end = source_.find("#}", inside);
    if (end == npos) fail("Missing end of comment tag", line_);
    const char sign = end > inside ? sign_at(source_, end - 1) : '\0';
    advance(after_end(end + 2, sign, true));
  }

  /// The start of a raw block's text where this tag is `raw`, else npos.
  std::size_t raw_body(std::size_t inside) const {
    std::size_t at = skip_space(inside);
    if (!source_.substr(at).starts_with("raw")) return npos;
    at = skip_space(at + 3);
    if (source_.substr(at).starts_with("-%}")) return skip_space(at + 3);
    return source_.substr(at).starts_with("%}") ? at + 2 : npos;
  }

  void read_raw(std::size_t body) {
    const int opened = line_;
    advance(body);
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != npos; ++tag) {
      const char begin_sign = sign_at(source_, tag + 2);
      std::size_t at = skip_space(tag + 2 + (begin_sign != '\0'));
      if (!source_.substr(at).starts_with("endraw")) continue;
      at = skip_space(at + 6);
      const char end_sign = sign_at(source_, at);
      if (end_sign != '\0') ++at;
      if (!source_.substr(at).starts_with("%}")) continue;
      push_data(tag, begin_sign, false);
      advance(after_end(at + 2, end_sign, true));
      return;
    }
    fail("Missing end of raw directive", opened);
  }

  void read_tag(Tok end, std::string_view close) {
    for (;;) {
      if (at_ >= source_.size()) return;  // the parser says what is missing
      if (open_.empty()) {
        const char sign = peek() == '-' || (peek() == '+' && end == Tok::block_end) ? peek() : '\0';
        const std::size_t at = at_ + (sign != '\0');
        if (source_.substr(at).starts_with(close)) {
          push(end, "");
          advance(after_end(at + 2, sign, end == Tok::block_end));
          return;
        }
      }
      if (const std::size_t text = skip_space(at_); text != at_) {
        advance(text);
      } else {
        read_token();
      }
    }
  }

  void read_token() {
    const char c = peek();
    if (is_ascii_digit(c)) {
      read_number();
    } else if (c == '\'' || c == '"') {
      read_string(c);
    } else if (std::size_t next = at_; c == '_' || is_alphabetic(next_code_point(source_, next))) {
      std::size_t end = at_;
      for (next = at_; end < source_.size() && is_word(next_code_point(source_, next));) end = next;
      push(Tok::name, std::string(source_.substr(at_, end - at_)));
      advance(end);
    } else {
      read_operator();
    }
  }

  /// Digits of `base`, with single underscores between them, from `from`.
  std::size_t digits_end(std::size_t from, int base = 10) const {
    const auto is_digit_of = [&](std::size_t i) {
      if (i >= source_.size()) return false;
      const char c = source_[i];
      const int value = is_ascii_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
      return value < base;
    };
    std::size_t end = from;
    while (is_digit_of(end) || (source_.substr(end).starts_with('_') && end > from && is_digit_of(end + 1))) ++end;
    return end;
  }

  void read_number() {
    const std::size_t whole = digits_end(at_);
    std::size_t end = whole;
    bool is_real = false;
    const auto at = [&](std::size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    if (at(end) == '.' && digits_end(end + 1) > end + 1) {
      end = digits_end(end + 1);
      is_real = true;
    }
    if ((at(end) | 32) == 'e') {
      const std::size_t exponent = end + 1 + (at(end + 1) == '+' || at(end + 1) == '-');
      if (digits_end(exponent) > exponent) {
        end = digits_end(exponent);
        is_real = true;
      }
    }
    if (at_ > 0 && source_[at_ - 1] == '.') is_real = false;  // x.0.1 indexes twice
    int base = 10;
    std::size_t begin = at_;
    if (!is_real) {
      end = whole;
      const char mark = static_cast<char>(at(at_ + 1) | 32);
      const int marked = mark == 'b' ? 2 : mark == 'o' ? 8 : mark == 'x' ? 16 : 10;
      if (source_[at_] == '0' && marked != 10) {
        const std::size_t first = at_ + 2 + (at(at_ + 2) == '_');
        if (digits_end(first, marked) > first) {
          base = marked;
          begin = first;
          end = digits_end(first, marked);
        }
      } else if (source_[at_] == '0') {
        while (end > at_ && source_.substr(at_, end - at_).find_first_not_of("0_") != npos) --end;
      }
    }
    std::string written(source_.substr(begin, end - begin));
    std::erase(written, '_');
    Token& token = push(is_real ? Tok::real : Tok::integer, written);
    const char* last = written.data() + written.size();
    const auto error = is_real ? std::from_chars(written.data(), last, token.real).ec
                               : std::from_chars(written.data(), last, token.integer, base).ec;
    if (error != std::errc{}) fail("the number " + written + " does not fit 64 bits", line_);
    advance(end);
  }

  void read_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail(std::string("unexpected char ") + quote + ": the string does not end", line_);
    push(Tok::string, unescape(source_.substr(at_ + 1, end - at_ - 1)));
    advance(end + 1);
  }

  std::string unescape(std::string_view text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char c = text[++i];  // a backslash is never last: the quote behind it would not have ended the string
      static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
      if (const std::size_t known = kFrom.find(c); known != npos) {
        out += kTo[known];
      } else if (c >= '0' && c <= '7') {
        std::size_t end = i;
        while (end < text.size() && end < i + 3 && text[end] >= '0' && text[end] <= '7') ++end;
        append_escape(out, text.substr(i, end - i), 8);
        i = end - 1;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (text.size() - i - 1 < digits) fail("a \\x or \\u escape is cut short", line_);
        append_escape(out, text.substr(i + 1, digits), 16);
        i += digits;
      } else if (c == 'N') {
        fail("\\N{...} escapes are not supported; write the character itself", line_);
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void append_escape(std::string& out, std::string_view digits, int base) const {
    std::uint32_t c = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), c, base);
    if (error != std::errc{} || end != digits.data() + digits.size() || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
      fail("an escape in a string names no character", line_);
    append_utf8(c, out);
  }

  void read_operator() {
    static constexpr std::pair<std::string_view, Tok> kOperators[] = {
        {"//", Tok::floordiv}, {"**", Tok::pow},   {"==", Tok::eq},      {"!=", Tok::ne},      {">=", Tok::gteq},
        {"<=", Tok::lteq},     {"+", Tok::add},    {"-", Tok::sub},      {"/", Tok::div},      {"*", Tok::mul},
        {"%", Tok::mod},       {"~", Tok::tilde},  {"[", Tok::lbracket}, {"]", Tok::rbracket}, {"(", Tok::lparen},
        {")", Tok::rparen},    {"{", Tok::lbrace}, {"}", Tok::rbrace},   {">", Tok::gt},       {"<", Tok::lt},
        {"=", Tok::assign},    {".", Tok::dot},    {":", Tok::colon},    {"|", Tok::pipe},     {",", Tok::comma},
        {";", Tok::semicolon}};
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                     [&](const auto& entry) { return starts(entry.first); });
    if (found == std::end(kOperators)) {
      std::size_t next = at_;
      next_code_point(source_, next);
      fail("unexpected char '" + std::string(source_.substr(at_, next - at_)) + "'", line_);
    }
    const char c = peek();
    if (c == '(' || c == '[' || c == '{') {
      open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c)
        fail(std::string("unexpected '") + c + "'" +
                 (open_.empty() ? "" : std::string(", expected '") + open_.back() + "'"),
             line_);
      open_.pop_back();
    }
    push(found->second, std::string(found->first));
    advance(at_ + found->first.size());
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // what was consumed last ended a line
  std::string open_;           // the brackets still to close; a tag cannot end inside them
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (!is_valid_utf8(source)) fail("the template is not valid UTF-8");
  const std::string normalized = normalize_newlines(source);
  return Lexer(normalized).run();
}

}  // namespace colibri::jinja
