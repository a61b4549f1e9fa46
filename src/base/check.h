// SPDX-License-Identifier: Apache-2.0
// Broken promises of our own: CHECK ends the process. Never use it on anything a user, file or peer can influence;
// that is what Result is for.
#pragma once

#include <string_view>

namespace colibri {

/// Prints one line naming the place and ends the process with exit code 70 (Exit::internal).
[[noreturn]] void check_failed(std::string_view condition, const char* file, int line);

}  // namespace colibri

#define CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::colibri::check_failed(#condition, __FILE__, __LINE__))
