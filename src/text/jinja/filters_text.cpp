// SPDX-License-Identifier: Apache-2.0
// Filters that make text or numbers out of one value.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/library.h"
#include "text/jinja/print.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace colibri::jinja {
namespace {

constexpr auto npos = std::string_view::npos;

template <Case to>
Value cased(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("case filter", args, {});
  return change_case(in.heap(), as_text(in.heap(), v), to);
}

/// The filter `title` begins words behind white space and ( { [ < - only, unlike str.title.
Value title(Interpreter& in, const Value& v, const Args&) {
  const Str& str = as_text(in.heap(), v);
  in.heap().scan(str.text.size());
  std::string out;
  bool fresh = true;
  for (std::size_t at = 0; at < str.text.size();) {
    const char32_t c = next_code_point(str.text, at);
    const bool separates = c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
    if (fresh) {
      append_upper(out, c);
    } else {
      append_lower(out, c);
    }
    fresh = separates;
  }
  return in.heap().text(std::move(out), !str.tainted.empty());
}

Value trim(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("trim", args, {"chars"});
  const Str* chars = bound.has(0) && !bound[0].is_none() ? &to_str(bound[0], "trim") : nullptr;
  return strip(in.heap(), as_text(in.heap(), v), chars, true, true);
}

Value replace_filter(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  Heap& heap = in.heap();
  const std::int64_t count = bound.has(2) && !bound[2].is_none() ? bound.integer(2, -1) : -1;
  return replace(heap, as_text(heap, v), as_text(heap, bound[0]), as_text(heap, bound[1]), count);
}

Value indent(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  Heap& heap = in.heap();
  const Str& text = to_str(v, "indent");
  const Str* space = nullptr;
  if (bound.has(0) && bound[0].is_string()) {
    space = &bound[0].str();
  } else {
    const std::int64_t width = std::max<std::int64_t>(0, bound.integer(0, 4));
    heap.charge(static_cast<std::size_t>(width));
    space = heap.text(std::string(static_cast<std::size_t>(width), ' '));
  }
  Builder with_end(heap);
  with_end.add(text);
  with_end.add("\n");
  const List* lines = split_lines(heap, *with_end.finish(), false);
  Builder out(heap);
  if (bound.flag(1)) out.add(*space);
  for (std::size_t i = 0; i < lines->items.size(); ++i) {
    const Str& line = lines->items[i].str();
    if (i > 0) out.add("\n");
    if (i > 0 && (bound.flag(2) || !line.text.empty())) out.add(*space);
    out.add(line);
  }
  return out.finish();
}

Value truncate(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("truncate", args, {"length", "killwords", "end", "leeway"});
  Heap& heap = in.heap();
  const Str& text = to_str(v, "truncate");
  const Str& end = bound.has(2) ? to_str(bound[2], "truncate") : *heap.view("...");
  const std::int64_t limit = bound.integer(0, 255);
  const auto end_size = static_cast<std::int64_t>(length(heap, &end));
  const std::int64_t leeway = bound.has(3) && !bound[3].is_none() ? bound.integer(3, 5) : 5;
  if (limit < end_size || leeway < 0)
    fail("truncate: length must not be less than that of the end, nor leeway negative");
  const auto size = static_cast<std::int64_t>(length(heap, &text));
  if (size - leeway <= limit) return &text;
  const Value head = slice(heap, &text, Value::none(), Value::integer(limit - end_size), Value::none());
  std::size_t keep = head.str().text.size();
  if (!bound.flag(1))
    if (const std::size_t space = head.str().text.rfind(' '); space != npos) keep = space;
  Builder out(heap);
  out.add_slice(head.str(), 0, keep);
  out.add(end);
  return out.finish();
}

Value center_filter(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("center", args, {"width"});
  return center(in.heap(), as_text(in.heap(), v), bound.integer(0, 80), *in.heap().view(" "));
}

Value escape(Interpreter& in, const Value& v, const Args&) {
  const Str& text = as_text(in.heap(), v);
  return text.markup ? &text : escape_html(in.heap(), text);
}

Value force_escape(Interpreter& in, const Value& v, const Args&) {
  return escape_html(in.heap(), as_text(in.heap(), v));
}

Value safe(Interpreter& in, const Value& v, const Args&) {
  Builder out(in.heap());
  print(out, v);
  return out.finish(true);
}

Value strip_tags(Interpreter& in, const Value& v, const Args&) {
  Heap& heap = in.heap();
  const Str* text = &as_text(heap, v);
  heap.scan(4 * text->text.size());
  for (const auto& [open, close] : {std::pair{"<!--", "-->"}, std::pair{"<", ">"}}) {
    Builder out(heap);
    std::size_t kept = 0;
    for (std::size_t at; (at = text->text.find(open, kept)) != npos;) {
      const std::size_t end = text->text.find(close, at);
      if (end == npos) break;
      out.add_slice(*text, kept, at);
      kept = end + std::string_view(close).size();
    }
    out.add_slice(*text, kept, text->text.size());
    text = out.finish();
  }
  text = join(heap, *heap.view(" "), *split(heap, *text, nullptr, -1, false), true);
  for (const auto& [entity, c] : {std::pair{"&lt;", "<"}, std::pair{"&gt;", ">"}, std::pair{"&#34;", "\""},
                                  std::pair{"&quot;", "\""}, std::pair{"&#39;", "'"}, std::pair{"&amp;", "&"}})
    text = replace(heap, *text, *heap.view(entity), *heap.view(c), -1);
  return text;
}

void quote_url(Heap& heap, Builder& out, const Str& text, bool for_query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  heap.scan(text.text.size());
  std::string quoted;
  for (const char c : text.text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) != 0 || std::string_view("_.-~").find(c) != npos);
    if (plain || (c == '/' && !for_query)) {
      quoted += c;
    } else if (c == ' ' && for_query) {
      quoted += '+';
    } else {
      quoted += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  out.add(quoted, !text.tainted.empty());
}

Value url_encode(Interpreter& in, const Value& v, const Args&) {
  Heap& heap = in.heap();
  Builder out(heap);
  if (!v.is(Kind::dict) && !v.is(Kind::list)) {
    quote_url(heap, out, as_text(heap, v), false);
    return out.finish();
  }
  const Value pairs = v.is(Kind::dict) ? find_method(v, "items")(in, v, {}) : v;
  for (const Value& pair : iterate(heap, pairs).items) {
    const List& parts = iterate(heap, pair);
    if (parts.items.size() != 2) fail("urlencode: expected pairs");
    if (out.size() > 0) out.add("&");
    quote_url(heap, out, as_text(heap, parts.items[0]), true);
    out.add("=");
    quote_url(heap, out, as_text(heap, parts.items[1]), true);
  }
  return out.finish();
}

Value word_count(Interpreter& in, const Value& v, const Args&) {
  const std::string_view text = as_text(in.heap(), v).text;
  in.heap().scan(text.size());
  std::int64_t n = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const bool word = is_word(next_code_point(text, at));
    n += word && !inside;
    inside = word;
  }
  return Value::integer(n);
}

Value format_filter(Interpreter& in, const Value& v, const Args& args) {
  Heap& heap = in.heap();
  if (!args.positional.empty() && !args.named.empty())
    fail("can't handle positional and keyword arguments at the same time");
  Value operand;
  if (!args.named.empty()) {
    Dict* dict = heap.dict();
    for (const auto& [name, value] : args.named) heap.set(*dict, heap.view(name), value);
    operand = dict;
  } else {
    List* tuple = heap.list(Flavor::tuple);
    for (const Value& value : args.positional) heap.push(*tuple, value);
    operand = tuple;
  }
  return percent_format(heap, as_text(heap, v), operand);
}

Value to_json(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound.flag(0);
  style.sort_keys = bound.flag(3);
  if (bound.has(1) && !bound[1].is_none()) {
    style.broken = true;
    style.item_separator = ",";
    if (bound[1].is_string()) {
      style.indent = bound[1].str().text;
    } else {
      const std::int64_t width = std::clamp<std::int64_t>(bound.integer(1, 0), 0, 1000);
      style.indent.assign(static_cast<std::size_t>(width), ' ');
    }
  }
  if (bound.has(2) && !bound[2].is_none()) {
    const List& pair = iterate(in.heap(), bound[2]);
    if (pair.items.size() != 2) fail("tojson: separators must be a pair");
    style.item_separator = to_str(pair.items[0], "separators").text;
    style.key_separator = to_str(pair.items[1], "separators").text;
  }
  Builder out(in.heap());
  print_json(in.heap(), out, v, style);
  return out.finish();
}

/// float(text), or nothing where Python raises ValueError.
std::optional<double> parse_real(const Str& str) {
  std::string text(str.text.substr(leading_space(str.text)));
  text.resize(text.size() - trailing_space(text));
  for (std::size_t i = 0; i < text.size();) {  // underscores stand between digits
    const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1)) {
      text.erase(i, 1);
    } else {
      ++i;
    }
  }
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.erase(0, 1);
  if (text.empty() || text[0] == '-' || text.find('(') != npos) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return {};
  if (error == std::errc::result_out_of_range)
    value = text.find("e-") == npos && text.find("E-") == npos ? INFINITY : 0;
  return negative ? -value : value;
}

std::optional<Value> truncated(double value) {
  if (!std::isfinite(value)) return {};
  if (std::fabs(value) >= 9.2e18) fail("integer overflow: the number does not fit 64 bits");
  return Value::integer(static_cast<std::int64_t>(value));
}

/// int(text, base), or nothing where Python raises ValueError.
std::optional<Value> parse_integer(const Str& str, std::int64_t base) {
  std::string text(str.text.substr(leading_space(str.text)));
  text.resize(text.size() - trailing_space(text));
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.erase(0, 1);
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 32);
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      text.erase(0, text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) return {};
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && text[i - 1] != '_' && i + 1 < text.size()) continue;
    digits += text[i];
  }
  if (digits.empty() || digits[0] == '-') return {};
  if (negative) digits.insert(0, "-");
  std::int64_t value = 0;
  const char* last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value, static_cast<int>(base));
  if (end != last) return {};
  if (error != std::errc{}) fail("integer overflow: the number does not fit 64 bits");
  return Value::integer(value);
}

Value to_int(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("int", args, {"default", "base"});
  const Value otherwise = bound.get(0, Value::integer(0));
  require_defined(v);
  if (v.is_integral()) return Value::integer(v.as_integer());
  if (v.is(Kind::real)) {
    if (std::isinf(v.as_real())) fail("cannot convert float infinity to integer");
    return truncated(v.as_real()).value_or(otherwise);
  }
  if (!v.is_string()) return otherwise;
  in.heap().scan(v.str().text.size());
  if (const auto whole = parse_integer(v.str(), bound.integer(1, 10))) return *whole;
  const auto real = parse_real(v.str());
  return real ? truncated(*real).value_or(otherwise) : otherwise;
}

Value to_float(Interpreter& in, const Value& v, const Args& args) {
  const Bound bound("float", args, {"default"});
  const Value otherwise = bound.get(0, Value::real(0));
  require_defined(v);
  if (v.is_number()) return Value::real(v.as_real());
  if (!v.is_string()) return otherwise;
  in.heap().scan(v.str().text.size());
  const auto real = parse_real(v.str());
  return real ? Value::real(*real) : otherwise;
}

/// Python's round(): to even on ties, and exact in decimal.
double round_half_even(double value, std::int64_t digits) {
  if (!std::isfinite(value)) return value;
  if (digits > 400) return value;
  if (digits < 0) {
    if (digits < -308) return std::copysign(0.0, value);
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  char text[1024];
  const int size = std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), value);
  double rounded = value;
  std::from_chars(text, text + std::min<int>(size, sizeof text - 1), rounded);
  return rounded;
}

Value round_filter(Interpreter&, const Value& v, const Args& args) {
  const Bound bound("round", args, {"precision", "method"});
  const std::string_view method = bound.has(1) ? to_str(bound[1], "round").text : "common";
  const std::int64_t digits = bound.integer(0, 0);
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  const double value = to_real(v, "round");
  if (method == "common") {
    if (v.is_integral() && digits >= 0) return Value::integer(v.as_integer());
    const double rounded = round_half_even(value, digits);
    return v.is_integral() ? Value::integer(static_cast<std::int64_t>(rounded)) : Value::real(rounded);
  }
  const double unit = std::pow(10.0, static_cast<double>(digits));
  return Value::real((method == "ceil" ? std::ceil(value * unit) : std::floor(value * unit)) / unit);
}

Value absolute(Interpreter&, const Value& v, const Args&) {
  require_defined(v);
  if (v.is(Kind::real)) return Value::real(std::fabs(v.as_real()));
  if (!v.is_integral()) fail("bad operand type for abs(): '" + std::string(type_name(v)) + "'");
  return v.as_integer() < 0 ? unary(Op::negative, v) : Value::integer(v.as_integer());
}

constexpr FilterEntry kFilters[] = {
    {"abs", absolute},
    {"capitalize", cased<Case::capitalize>},
    {"center", center_filter},
    {"e", escape},
    {"escape", escape},
    {"float", to_float},
    {"forceescape", force_escape},
    {"format", format_filter},
    {"indent", indent},
    {"int", to_int},
    {"lower", cased<Case::lower>},
    {"replace", replace_filter},
    {"round", round_filter},
    {"safe", safe},
    {"string", [](Interpreter& in, const Value& v, const Args&) { return Value(&as_text(in.heap(), v)); }},
    {"striptags", strip_tags},
    {"title", title},
    {"tojson", to_json},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", cased<Case::upper>},
    {"urlencode", url_encode},
    {"wordcount", word_count},
};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace colibri::jinja
