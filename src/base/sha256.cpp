// SPDX-License-Identifier: Apache-2.0
// One call of the digest interface; it fails only where the library itself is broken.
#include "base/sha256.h"

#include <array>

#include <openssl/evp.h>

#include "base/check.h"

namespace colibri {

std::string sha256_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

}  // namespace colibri
