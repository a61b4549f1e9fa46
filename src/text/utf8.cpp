// SPDX-License-Identifier: Apache-2.0
// UTF-8 in steps of one code point. Invariant: every loop advances by at least one byte.
#include "text/utf8.h"

#include <algorithm>
#include <cstring>

namespace colibri {

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range keeps out overlong forms, surrogates and what is past U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

char32_t code_point(std::string_view text, std::size_t& length) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(0);
  length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = length == 1 ? lead : lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) value = value << 6 | (byte(i) & 0x3F);
  return value;
}

void append_utf8(char32_t value, std::string& out) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | value >> 6);
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3F));
    put(0x80 | (value >> 6 & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

bool is_ascii(std::string_view text) {
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) return false;
  }
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_valid_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.valid) return false;
    at += step.length;
  }
  return true;
}

std::string repair_utf8(std::string_view text, std::vector<ByteRange>& ranges) {
  std::vector<std::size_t*> borders;  // ascending, each moved once
  for (ByteRange& range : ranges) borders.insert(borders.end(), {&range.begin, &range.end});
  std::string out;
  out.reserve(text.size() + 16);
  std::size_t border = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    // A border inside an ill-formed stretch grows its range over the whole stretch.
    for (; border < borders.size() && *borders[border] < at + step.length; ++border) {
      const bool is_end_inside = border % 2 == 1 && *borders[border] > at;
      *borders[border] = out.size() + (is_end_inside ? kReplacementCharacter.size() : 0);
    }
    out += step.valid ? text.substr(at, step.length) : kReplacementCharacter;
    at += step.length;
  }
  for (; border < borders.size(); ++border) *borders[border] = out.size();
  return out;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view last_character(std::string_view text) {
  if (text.empty()) return text;
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return text.substr(at);
}

std::size_t leading_white_space(std::string_view text) {
  std::size_t at = 0, length = 0;
  while (at < text.size() && is_white_space(code_point(text.substr(at), length))) at += length;
  return at;
}

std::size_t trailing_white_space(std::string_view text) {
  std::size_t end = text.size(), length = 0;
  while (end > 0) {
    const std::string_view last = last_character(text.substr(0, end));
    if (!is_white_space(code_point(last, length))) break;
    end -= last.size();
  }
  return text.size() - end;
}

}  // namespace colibri
