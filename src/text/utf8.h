// SPDX-License-Identifier: Apache-2.0
// UTF-8 in steps of one code point, and the repair of text that is not valid.
// Invariant: an ill-formed stretch becomes one U+FFFD per maximal subpart (Unicode, section 3.9), however it is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_range.h"

namespace colibri {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Step {
  std::size_t length = 0;  // bytes of the code point, or of the ill-formed stretch
  bool valid = false;
  bool cut = false;  // not valid so far, and more bytes could make it so
};

/// The first code point of a text that is not empty.
Utf8Step utf8_step(std::string_view text);

/// The first code point of a text that is valid and not empty; `length` is set to its bytes.
char32_t code_point(std::string_view text, std::size_t& length);

void append_utf8(char32_t code_point, std::string& out);

bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);

/// Replaces what is ill-formed. `ranges` of the text (sorted, apart) follow their bytes.
std::string repair_utf8(std::string_view text, std::vector<ByteRange>& ranges);

/// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

/// Bytes of white space that `text` (valid) begins, or ends, with.
std::size_t leading_white_space(std::string_view text);
std::size_t trailing_white_space(std::string_view text);

/// The last code point of a valid text, as its bytes; empty where the text is.
std::string_view last_character(std::string_view text);

}  // namespace colibri
