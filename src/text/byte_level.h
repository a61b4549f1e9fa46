// SPDX-License-Identifier: Apache-2.0
// GPT-2's byte alphabet: each byte has a printable character, so that a vocabulary of strings can hold any bytes.
// Invariant: the two maps are inverse to each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace colibri {

/// Printable bytes of Latin-1 stand for themselves, the other 68 for U+0100 and up, in order.
constexpr std::array<char16_t, 256> make_byte_alphabet() {
  std::array<char16_t, 256> map{};
  char16_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    map[byte] = printable ? static_cast<char16_t>(byte) : next++;
  }
  return map;
}
inline constexpr std::array<char16_t, 256> kByteAlphabet = make_byte_alphabet();

inline constexpr std::size_t kByteAlphabetEnd = 256 + 68;
constexpr std::array<std::int16_t, kByteAlphabetEnd> make_alphabet_bytes() {
  std::array<std::int16_t, kByteAlphabetEnd> map{};
  for (auto& byte : map) byte = -1;
  for (std::size_t byte = 0; byte < 256; ++byte) map[kByteAlphabet[byte]] = static_cast<std::int16_t>(byte);
  return map;
}
inline constexpr std::array<std::int16_t, kByteAlphabetEnd> kAlphabetBytes = make_alphabet_bytes();

/// The byte that a character stands for, if any.
constexpr std::optional<char> byte_of_character(char32_t character) {
  if (character >= kByteAlphabetEnd || kAlphabetBytes[character] < 0) return std::nullopt;
  return static_cast<char>(kAlphabetBytes[character]);
}

}  // namespace colibri
