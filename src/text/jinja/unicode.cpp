// SPDX-License-Identifier: Apache-2.0
// Categories and case come from utf8proc; the white space and line break sets are those of CPython's str.
#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include "text/utf8.h"

namespace colibri::jinja {
namespace {

utf8proc_int32_t point(char32_t c) { return static_cast<utf8proc_int32_t>(c); }
char32_t back(utf8proc_int32_t c) { return static_cast<char32_t>(c); }

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& at) {
  std::size_t length = 0;
  const char32_t c = code_point(text.substr(at), length);
  at += length;
  return c;
}

std::size_t count_code_points(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

std::size_t code_point_offset(std::string_view text, std::size_t n) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 && n-- == 0) return i;
  return text.size();
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_space(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}

std::size_t trailing_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    std::size_t at = start;
    if (!is_space(next_code_point(text, at))) break;
    end = start;
  }
  return text.size() - end;
}

std::size_t line_break(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) == "\r\n") return 2;
  std::size_t next = at;
  const char32_t c = next_code_point(text, next);
  const bool breaks = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  return breaks ? next - at : 0;
}

bool is_alphabetic(char32_t c) {
  const auto category = utf8proc_category(point(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t c) { return utf8proc_category(point(c)) == UTF8PROC_CATEGORY_ND; }

bool is_word(char32_t c) {
  const auto category = utf8proc_category(point(c));
  return c == '_' || is_alphabetic(c) || (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

bool is_lower(char32_t c) { return utf8proc_islower(point(c)) != 0; }
bool is_upper(char32_t c) { return utf8proc_isupper(point(c)) != 0; }

bool is_printable(char32_t c) {
  switch (utf8proc_category(point(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

void append_lower(std::string& out, char32_t c) { append_utf8(back(utf8proc_tolower(point(c))), out); }

void append_upper(std::string& out, char32_t c) {
  if (c == 0xDF) {
    out += "SS";
  } else {
    append_utf8(back(utf8proc_toupper(point(c))), out);
  }
}

void append_title(std::string& out, char32_t c) {
  if (c == 0xDF) {
    out += "Ss";
  } else {
    append_utf8(back(utf8proc_totitle(point(c))), out);
  }
}

}  // namespace colibri::jinja
