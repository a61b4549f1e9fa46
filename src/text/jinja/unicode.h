// SPDX-License-Identifier: Apache-2.0
// Python's view of text, over UTF-8: code points, white space, case.
// Invariant: the input is valid UTF-8 (JSON and template sources are checked where they enter).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colibri::jinja {

/// The code point at `at`, which moves behind it.
char32_t next_code_point(std::string_view text, std::size_t& at);

std::size_t count_code_points(std::string_view text);
/// Byte offset of code point `n`, or text.size() where the text is shorter.
std::size_t code_point_offset(std::string_view text, std::size_t n);

bool is_space(char32_t c);  // as str.isspace and str.strip see it
/// Bytes of white space at the front, at the back.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);
/// Length of the line break at `at` as str.splitlines knows them, 0 where there is none.
std::size_t line_break(std::string_view text, std::size_t at);

bool is_word(char32_t c);        // \w: letters, numbers, underscore
bool is_alphabetic(char32_t c);  // str.isalpha
bool is_digit(char32_t c);       // str.isdigit, decimal digits of any script
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_printable(char32_t c);  // what repr() leaves as it is

/// Simple case mappings of Unicode, and the sharp s, whose upper case is two letters.
void append_lower(std::string& out, char32_t c);
void append_upper(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

}  // namespace colibri::jinja
