// SPDX-License-Identifier: Apache-2.0
// The end of a broken promise: one line on stderr, exit code 70, no destructors.
#include "base/check.h"

#include <unistd.h>
#include <cstdio>

#include "base/result.h"

namespace colibri {

void check_failed(std::string_view condition, const char* file, int line) {
  std::fprintf(stderr, "colibri: internal error: %s:%d: CHECK(%.*s) failed\n", file, line,
               static_cast<int>(condition.size()), condition.data());
  std::fflush(stderr);
  _exit(static_cast<int>(Exit::internal));
}

}  // namespace colibri
