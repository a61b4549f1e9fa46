// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a stretch of bytes, by libcrypto.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace colibri {

/// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace colibri
