// SPDX-License-Identifier: Apache-2.0
// The program. Nothing throws past here: what a library threw all the same ends with one line and exit code 70.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "apps/cli.h"
#include "base/result.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return colibri::run_command_line(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "colibri: out of memory\n");
    return static_cast<int>(colibri::Exit::config);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "colibri: internal error: %s\n", error.what());
    return static_cast<int>(colibri::Exit::internal);
  }
}
