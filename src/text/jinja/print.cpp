// SPDX-License-Identifier: Apache-2.0
// str(), repr() and json.dumps(). Nesting is bounded here too: a namespace may hold itself.
#include "text/jinja/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace colibri::jinja {
namespace {

constexpr int kMaxNesting = 200;

void check_nesting(int depth) {
  if (depth > kMaxNesting) fail_limit("a value is nested too deep to print");
}

void append_hex(std::string& out, char32_t c, int digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kDigits[c >> shift & 15];
}

void repr_text(Builder& out, const Str& str) {
  const std::string_view text = str.text;
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  if (str.markup) out.add("Markup(");
  out.add({&quote, 1});
  const bool tainted = !str.tainted.empty();
  std::string escaped;
  std::size_t kept = 0;  // up to here the text is out already
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    escaped.clear();
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      escaped = {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      escaped = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if ((c < 0x20 || c > 0x7E) && !is_printable(c)) {
      escaped = c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
      append_hex(escaped, c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8);
    }
    if (escaped.empty()) continue;
    out.add_slice(str, kept, start);
    out.add(escaped, tainted);
    kept = at;
  }
  out.add_slice(str, kept, text.size());
  out.add({&quote, 1});
  if (str.markup) out.add(")");
}

void repr_at(Builder& out, const Value& value, int depth);

void repr_list(Builder& out, const List& list, int depth) {
  if (list.flavor == Flavor::generator) {
    out.add("<generator object>");
    return;
  }
  if (list.flavor == Flavor::range) {  // made by range() or a slice of one: begin, end, step follow from the items
    const auto& items = list.items;
    const std::int64_t begin = items.empty() ? 0 : items.front().as_integer();
    const std::int64_t step = items.size() < 2 ? 1 : items[1].as_integer() - begin;
    const std::int64_t end = items.empty() ? 0 : items.back().as_integer() + step;
    out.add("range(" + std::to_string(begin) + ", " + std::to_string(end));
    out.add(step == 1 ? ")" : ", " + std::to_string(step) + ")");
    return;
  }
  const bool view = list.flavor >= Flavor::keys;
  if (view) out.add(std::string(type_name(&list)) + "(");
  out.add(list.flavor == Flavor::tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.add(", ");
    repr_at(out, list.items[i], depth + 1);
  }
  out.add(list.flavor == Flavor::tuple ? (list.items.size() == 1 ? ",)" : ")") : "]");
  if (view) out.add(")");
}

void repr_at(Builder& out, const Value& value, int depth) {
  check_nesting(depth);
  switch (value.kind()) {
    case Kind::undefined:
      out.add("Undefined");
      return;
    case Kind::none:
      out.add("None");
      return;
    case Kind::boolean:
      out.add(value.as_boolean() ? "True" : "False");
      return;
    case Kind::integer:
      out.add(std::to_string(value.as_integer()));
      return;
    case Kind::real:
      out.add(real_repr(value.as_real()));
      return;
    case Kind::string:
      repr_text(out, value.str());
      return;
    case Kind::list:
      repr_list(out, value.list(), depth);
      return;
    case Kind::callable:
      out.add(value.callable().describe());
      return;
    case Kind::dict: {
      out.add("{");
      bool first = true;
      for (const auto& [key, member] : value.dict().items) {
        if (!std::exchange(first, false)) out.add(", ");
        repr_at(out, key, depth + 1);
        out.add(": ");
        repr_at(out, member, depth + 1);
      }
      out.add("}");
      return;
    }
    case Kind::space: {
      out.add("<Namespace {");
      bool first = true;
      for (const auto& [name, member] : value.space().attributes) {
        out.add(std::exchange(first, false) ? "'" : ", '");
        out.add(name);
        out.add("': ");
        repr_at(out, member, depth + 1);
      }
      out.add("}>");
      return;
    }
  }
}

void json_text(Builder& out, const Str& str, bool ascii) {
  const std::string_view text = str.text;
  const bool tainted = !str.tainted.empty();
  out.add("\"");
  std::string escaped;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x7F || !ascii)) {
      ++at;
      continue;
    }
    const char32_t c = next_code_point(text, at);
    escaped = "\\";
    switch (c) {
      case '"':
      case '\\':
        escaped += static_cast<char>(c);
        break;
      case '\n':
        escaped += 'n';
        break;
      case '\r':
        escaped += 'r';
        break;
      case '\t':
        escaped += 't';
        break;
      case '\b':
        escaped += 'b';
        break;
      case '\f':
        escaped += 'f';
        break;
      case 0x7F:
        continue;
      default:
        escaped += 'u';
        if (c < 0x10000) {
          append_hex(escaped, c, 4);
        } else {
          append_hex(escaped, 0xD800 + ((c - 0x10000) >> 10), 4);
          escaped += "\\u";
          append_hex(escaped, 0xDC00 + ((c - 0x10000) & 0x3FF), 4);
        }
    }
    out.add_slice(str, kept, start);
    out.add(escaped, tainted);
    kept = at;
  }
  out.add_slice(str, kept, text.size());
  out.add("\"");
}

std::string json_real(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return real_repr(value);
}

class JsonWriter {
 public:
  JsonWriter(Heap& heap, Builder& out, const JsonStyle& style) : heap_(heap), out_(out), style_(style) {}

  void write(const Value& value, int depth) {
    heap_.work(1);
    check_nesting(depth);
    switch (value.kind()) {
      case Kind::none:
        out_.add("null");
        return;
      case Kind::boolean:
        out_.add(value.as_boolean() ? "true" : "false");
        return;
      case Kind::integer:
        out_.add(std::to_string(value.as_integer()));
        return;
      case Kind::real:
        out_.add(json_real(value.as_real()));
        return;
      case Kind::string:
        json_text(out_, value.str(), style_.ascii);
        return;
      case Kind::dict:
        write_dict(value.dict(), depth);
        return;
      case Kind::list:
        if (value.list().flavor <= Flavor::tuple) {
          write_list(value.list(), depth);
          return;
        }
        [[fallthrough]];
      default:
        fail("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
    }
  }

 private:
  void line_break(int depth) {
    if (!style_.broken) return;
    out_.add("\n");
    for (int i = 0; i < depth; ++i) out_.add(style_.indent);
  }

  void write_list(const List& list, int depth) {
    out_.add("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.add(style_.item_separator);
      line_break(depth + 1);
      write(list.items[i], depth + 1);
    }
    if (!list.items.empty()) line_break(depth);
    out_.add("]");
  }

  void write_dict(const Dict& dict, int depth) {
    std::vector<const std::pair<Value, Value>*> members;
    members.reserve(dict.items.size());
    for (const auto& member : dict.items) members.push_back(&member);
    if (style_.sort_keys)
      std::stable_sort(members.begin(), members.end(),
                       [&](const auto* a, const auto* b) { return less(heap_, a->first, b->first); });
    out_.add("{");
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out_.add(style_.item_separator);
      line_break(depth + 1);
      write_key(members[i]->first);
      out_.add(style_.key_separator);
      write(members[i]->second, depth + 1);
    }
    if (!members.empty()) line_break(depth);
    out_.add("}");
  }

  void write_key(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
        json_text(out_, key.str(), style_.ascii);
        return;
      case Kind::none:
        out_.add("\"null\"");
        return;
      case Kind::boolean:
        out_.add(key.as_boolean() ? "\"true\"" : "\"false\"");
        return;
      case Kind::integer:
        out_.add("\"" + std::to_string(key.as_integer()) + "\"");
        return;
      case Kind::real:
        out_.add("\"" + json_real(key.as_real()) + "\"");
        return;
      default:
        fail("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
  }

  Heap& heap_;
  Builder& out_;
  const JsonStyle& style_;
};

bool tainted_at(Heap& heap, const Value& value, int depth) {
  heap.work(1);
  check_nesting(depth);
  const auto inside = [&](const Value& v) { return tainted_at(heap, v, depth + 1); };
  switch (value.kind()) {
    case Kind::string:
      return !value.str().tainted.empty();
    case Kind::list:
      return std::any_of(value.list().items.begin(), value.list().items.end(), inside);
    case Kind::dict:
      return std::any_of(value.dict().items.begin(), value.dict().items.end(),
                         [&](const auto& member) { return inside(member.first) || inside(member.second); });
    case Kind::space:
      return std::any_of(value.space().attributes.begin(), value.space().attributes.end(),
                         [&](const auto& member) { return inside(member.second); });
    default:
      return false;
  }
}

}  // namespace

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[40];
  const double size = std::fabs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto end = std::to_chars(digits, digits + sizeof digits, value,
                                 scientific ? std::chars_format::scientific : std::chars_format::fixed)
                       .ptr;
  std::string text(digits, end);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void print(Builder& out, const Value& value) {
  if (value.is_string()) {
    out.add(value.str());
  } else if (!value.is_undefined()) {
    repr_at(out, value, 0);
  }
}

void print_repr(Builder& out, const Value& value) { repr_at(out, value, 0); }

const Str& as_text(Heap& heap, const Value& value) {
  if (value.is_string()) return value.str();
  Builder out(heap);
  print(out, value);
  return *out.finish();
}

void print_json(Heap& heap, Builder& out, const Value& value, const JsonStyle& style) {
  JsonWriter(heap, out, style).write(value, 0);
}

bool any_tainted(Heap& heap, const Value& value) { return tainted_at(heap, value, 0); }

}  // namespace colibri::jinja
