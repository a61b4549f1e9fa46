// SPDX-License-Identifier: Apache-2.0
// Both languages end in one conversion: a value, a spec (fill, align, sign, width, precision, type), text.
#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"
#include "text/utf8.h"

namespace colibri::jinja {
namespace {

constexpr int kMaxWidth = 100'000;  // of a padded field, and digits behind the point
constexpr int kMaxPrecision = 500;

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '\0';   // + or space: shown for positive numbers
  bool alternate = false;
  char group = '\0';
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = '\0';
};

void insert_groups(std::string& digits, char separator) {
  std::size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (std::size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, separator);
}

std::string real_digits(double value, char type, std::int64_t precision, bool alternate) {
  if (precision > kMaxPrecision) fail("the precision of a format is too large");
  char format[16], text[1024];
  std::snprintf(format, sizeof format, alternate ? "%%#.%d%c" : "%%.%d%c", static_cast<int>(precision), type);
  std::snprintf(text, sizeof text, format, value);  // %f of the largest double has 309 digits
  return text;
}

std::string integer_digits(std::uint64_t value, char type, bool alternate) {
  const unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const char* symbols = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), symbols[value % base]);
    value /= base;
  } while (value != 0);
  if (alternate && base != 10) digits.insert(0, std::string("0") + type);
  return digits;
}

/// Sign and digits of a number; `type` is known to fit.
std::string number_text(const Value& value, const Spec& spec, bool& negative) {
  std::string digits;
  const bool as_integer = std::string_view("dixXobn").find(spec.type) != std::string_view::npos;
  if (value.is_integral() && (spec.type == '\0' || as_integer)) {
    const std::int64_t number = value.as_integer();
    negative = number < 0;
    const auto bits = static_cast<std::uint64_t>(number);
    digits = integer_digits(negative ? 0 - bits : bits, spec.type, spec.alternate);
  } else {
    double number = value.as_real();
    negative = number < 0 || (number == 0 && 1 / number < 0);
    if (negative) number = -number;
    const char type = spec.type;
    if (type == '\0' && spec.precision < 0) {
      digits = real_repr(number);
    } else if (type == '%') {
      digits = real_digits(number * 100, 'f', spec.precision < 0 ? 6 : spec.precision, spec.alternate) + "%";
    } else {
      digits = real_digits(number, type == '\0' || type == 'n' ? 'g' : type, spec.precision < 0 ? 6 : spec.precision,
                           spec.alternate);
    }
  }
  if (spec.group != '\0') insert_groups(digits, spec.group);
  return digits;
}

void add_fill(Builder& out, const Spec& spec, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out.add(spec.fill);
}

void add_padded(Builder& out, const Spec& spec, char align, std::string_view sign, const Str& body) {
  if (spec.width > kMaxWidth) fail_limit("a format is wider than " + std::to_string(kMaxWidth));
  const auto size = static_cast<std::int64_t>(count_code_points(body.text) + sign.size());
  const std::int64_t missing = spec.width > size ? spec.width - size : 0;
  if (align == '=') out.add(sign);
  add_fill(out, spec, align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0);
  if (align != '=') out.add(sign);
  out.add(body);
  add_fill(out, spec, align == '<' ? missing : align == '^' ? missing - missing / 2 : 0);
}

void add_number(Heap& heap, Builder& out, const Value& value, const Spec& spec) {
  bool negative = false;
  const std::string digits = number_text(value, spec, negative);
  const std::string sign = negative ? "-" : spec.sign != '\0' ? std::string(1, spec.sign) : "";
  add_padded(out, spec, spec.align != '\0' ? spec.align : '>', sign, *heap.text(digits));
}

void add_text(Heap& heap, Builder& out, const Str& text, const Spec& spec, char align) {
  const Str* shown = &text;
  if (spec.precision >= 0)
    shown = heap.slice(text, 0, code_point_offset(text.text, static_cast<std::size_t>(spec.precision)));
  add_padded(out, spec, spec.align != '\0' ? spec.align : align, "", *shown);
}

const Str& repr_of(Heap& heap, const Value& value) {
  Builder out(heap);
  print_repr(out, value);
  return *out.finish();
}

/// Reads digits; a number too large to mean anything stops at a bound.
std::int64_t read_digits(std::string_view text, std::size_t& at) {
  std::int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    value = std::min<std::int64_t>(value * 10 + (text[at] - '0'), std::int64_t{1} << 40);
  return value;
}

class PercentFormatter {
 public:
  PercentFormatter(Heap& heap, const Str& text, const Value& value)
      : heap_(heap),
        text_(text),
        value_(value),
        is_tuple_(value.is(Kind::list) && value.list().flavor == Flavor::tuple) {}

  Value run() {
    const std::string_view text = text_.text;
    std::size_t kept = 0;
    while (kept < text.size()) {
      at_ = text.find('%', kept);
      if (at_ == std::string_view::npos) break;
      heap_.work(1);
      out_.add_slice(text_, kept, at_++);
      convert();
      kept = at_;
    }
    out_.add_slice(text_, std::min(kept, text.size()), text.size());
    if (!by_name_ && next_ < count() && !value_.is(Kind::dict))
      fail("not all arguments converted during string formatting");
    return out_.finish(text_.markup);
  }

 private:
  std::size_t count() const { return is_tuple_ ? value_.list().items.size() : 1; }

  Value next_argument() {
    if (next_ >= count()) fail("not enough arguments for format string");
    const std::size_t i = next_++;
    return is_tuple_ ? value_.list().items[i] : value_;
  }

  char peek() const {
    if (at_ >= text_.text.size()) fail("incomplete format");
    return text_.text[at_];
  }

  void convert() {
    Spec spec;
    const Value* named = nullptr;
    if (peek() == '(') {
      const std::size_t close = text_.text.find(')', at_);
      if (close == std::string_view::npos) fail("incomplete format key");
      if (!value_.is(Kind::dict)) fail("format requires a mapping");
      const std::string_view key = text_.text.substr(at_ + 1, close - at_ - 1);
      named = value_.dict().find(key);
      if (named == nullptr) fail("format: no key '" + std::string(key) + "'");
      by_name_ = true;
      at_ = close + 1;
    }
    bool zero = false;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-') {
        spec.align = '<';
      } else if (c == '0') {
        zero = true;
      } else if (c == '+' || (c == ' ' && spec.sign == '\0')) {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else {
        break;
      }
    }
    spec.width = read_star_or_digits();
    if (peek() == '.') {
      ++at_;
      spec.precision = read_star_or_digits();
    }
    const char type = peek();
    ++at_;
    if (type == '%') {
      out_.add("%");
      return;
    }
    const Value value = named != nullptr ? *named : next_argument();
    if (type == 's' || type == 'r' || type == 'a') {
      add_text(heap_, out_, type == 's' ? as_text(heap_, value) : repr_of(heap_, value), spec, '>');
      return;
    }
    if (type == 'c') {
      convert_character(value, spec);
      return;
    }
    if (std::string_view("diuxXoeEfFgG").find(type) == std::string_view::npos)
      fail(std::string("unsupported format character '") + type + "'");
    if (!value.is_number())
      fail(std::string("%") + type + " format: a number is required, not " + std::string(type_name(value)));
    if (zero && spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
    }
    spec.type = type == 'u' || type == 'i' ? 'd' : type;
    if (spec.type == 'd' && value.is(Kind::real)) {
      if (!(std::abs(value.as_real()) < 9.2e18)) fail("integer overflow: the number does not fit 64 bits");
      add_number(heap_, out_, Value::integer(static_cast<std::int64_t>(value.as_real())), spec);
      return;
    }
    if (value.is(Kind::real) && (type == 'x' || type == 'X' || type == 'o'))
      fail(std::string("%") + type + " format: an integer is required, not float");
    add_number(heap_, out_, value, spec);
  }

  void convert_character(const Value& value, const Spec& spec) {
    if (value.is_integral()) {
      const std::int64_t c = value.as_integer();
      if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) fail("%c arg not in range(0x110000)");
      std::string text;
      append_utf8(static_cast<char32_t>(c), text);
      add_text(heap_, out_, *heap_.text(text), spec, '>');
    } else {
      const Str& text = to_str(value, "%c");
      if (count_code_points(text.text) != 1) fail("%c requires int or char");
      add_text(heap_, out_, text, spec, '>');
    }
  }

  std::int64_t read_star_or_digits() {
    if (peek() != '*') return read_digits(text_.text, at_);
    ++at_;
    const std::int64_t value = to_integer(next_argument(), "*");
    return value < 0 ? 0 : value;
  }

  Heap& heap_;
  const Str& text_;
  const Value& value_;
  bool is_tuple_;
  bool by_name_ = false;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
  Builder out_{heap_};
};

Spec parse_spec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    std::size_t next = 0;
    next_code_point(text, next);
    if (next < text.size() && is_align(text[next])) {
      spec.fill = text.substr(0, next);
      spec.align = text[next];
      at = next + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') {
    if (peek() != '-') spec.sign = peek();
    ++at;
  }
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
    }
    ++at;
  }
  spec.width = read_digits(text, at);
  if (peek() == ',' || peek() == '_') spec.group = text[at++];
  if (peek() == '.') {
    ++at;
    const std::size_t digits = at;
    spec.precision = read_digits(text, at);
    if (at == digits) fail("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail("Invalid format specifier");
  return spec;
}

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& in, const Args& args) : in_(in), args_(args) {}

  const Str* run(const Str& text, int depth) {
    if (depth > 2) fail("Max string recursion exceeded");
    Builder out(in_.heap());
    const std::string_view view = text.text;
    std::size_t kept = 0;
    for (std::size_t at = 0; at < view.size();) {
      const char c = view[at];
      if (c != '{' && c != '}') {
        ++at;
        continue;
      }
      in_.heap().work(1);
      out.add_slice(text, kept, at);
      if (at + 1 < view.size() && view[at + 1] == c) {
        out.add_slice(text, at, at + 1);
        kept = at += 2;
        continue;
      }
      if (c == '}') fail("Single '}' encountered in format string");
      std::size_t end = at + 1;
      for (int open = 1; end < view.size(); ++end) {
        open += view[end] == '{' ? 1 : view[end] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      if (end >= view.size()) fail("expected '}' before end of string");
      add_field(out, text, at + 1, end, depth);
      kept = at = end + 1;
    }
    out.add_slice(text, kept, view.size());
    return out.finish(text.markup);
  }

 private:
  void add_field(Builder& out, const Str& text, std::size_t begin, std::size_t end, int depth) {
    const std::string_view field = text.text.substr(begin, end - begin);
    std::size_t name_end = 0;
    for (bool bracket = false; name_end < field.size(); ++name_end) {
      bracket = field[name_end] == '[' || (bracket && field[name_end] != ']');
      if (!bracket && (field[name_end] == '!' || field[name_end] == ':')) break;
    }
    Value value = find(field.substr(0, name_end));
    std::size_t at = name_end;
    if (at < field.size() && field[at] == '!') {
      const char conversion = at + 1 < field.size() ? field[at + 1] : '\0';
      at += 2;
      if (conversion != 's' && conversion != 'r') fail("Unknown conversion specifier in a format string");
      if (at < field.size() && field[at] != ':') fail("expected ':' after conversion specifier");
      value = conversion == 's' ? &as_text(in_.heap(), value) : &repr_of(in_.heap(), value);
    }
    const Str* spec_text = in_.heap().view("");
    if (at < field.size()) spec_text = run(*in_.heap().slice(text, begin + at + 1, end), depth + 1);
    add_value(out, value, spec_text->text);
  }

  void add_value(Builder& out, const Value& value, std::string_view spec_text) {
    Heap& heap = in_.heap();
    if (spec_text.empty()) {
      print(out, value);
      return;
    }
    const Spec spec = parse_spec(spec_text);
    if (value.is_string()) {
      if ((spec.type != '\0' && spec.type != 's') || spec.align == '=' || spec.sign != '\0')
        fail("Invalid format specifier for a string");
      add_text(heap, out, value.str(), spec, '<');
    } else if (value.is_number()) {
      constexpr std::string_view kIntegers = "dxXobneEfFgG%", kReals = "eEfFgGn%";
      if (spec.type != '\0' && (value.is_integral() ? kIntegers : kReals).find(spec.type) == std::string_view::npos)
        fail(std::string("Unknown format code '") + spec.type + "' for object of type '" +
             std::string(type_name(value)) + "'");
      add_number(heap, out, value, spec);
    } else {
      fail("unsupported format string passed to " + std::string(type_name(value)) + ".__format__");
    }
  }

  Value find(std::string_view path) {
    const std::size_t head_end = std::min(path.find_first_of(".["), path.size());
    const std::string_view head = path.substr(0, head_end);
    Value value = find_head(head);
    for (std::size_t at = head_end; at < path.size();) {
      const bool is_attribute = path[at++] == '.';
      const std::size_t end = is_attribute ? std::min(path.find_first_of(".[", at), path.size()) : path.find(']', at);
      if (end == std::string_view::npos || end == at) fail("Missing ']' or empty attribute in format string");
      const std::string_view name = path.substr(at, end - at);
      if (is_attribute) {
        value = in_.attribute(value, *in_.heap().view(name));
      } else {
        std::size_t digits = 0;
        const std::int64_t index = read_digits(name, digits);
        value = in_.item(value, digits == name.size() ? Value::integer(index) : Value(in_.heap().view(name)));
      }
      at = end + (is_attribute ? 0 : 1);
    }
    return value;
  }

  Value find_head(std::string_view head) {
    std::size_t digits = 0;
    auto index = static_cast<std::size_t>(read_digits(head, digits));
    if (digits == head.size()) {
      if (head.empty()) index = next_++;
      if (index >= args_.positional.size()) fail("Replacement index out of range for positional args tuple");
      return args_.positional[index];
    }
    for (const auto& [name, value] : args_.named)
      if (name == head) return value;
    fail("format: no argument '" + std::string(head) + "'");
  }

  Interpreter& in_;
  const Args& args_;
  std::size_t next_ = 0;
};

}  // namespace

Value percent_format(Heap& heap, const Str& text, const Value& value) {
  return PercentFormatter(heap, text, value).run();
}

Value brace_format(Interpreter& in, const Str& text, const Args& args) { return BraceFormatter(in, args).run(text, 0); }

const Str* escape_html(Heap& heap, const Str& text) {
  Builder out(heap);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.text.size(); ++at) {
    std::string_view entity;
    switch (text.text[at]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '"':
        entity = "&#34;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      default:
        continue;
    }
    out.add_slice(text, kept, at);
    out.add(entity, !text.tainted.empty());
    kept = at + 1;
  }
  out.add_slice(text, kept, text.text.size());
  return out.finish(true);
}

}  // namespace colibri::jinja
