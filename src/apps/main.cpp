// SPDX-License-Identifier: Apache-2.0
// The program. Nothing throws past here: what a library threw all the same ends with one line and exit code 70.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "apps/cli.h"
#include "base/result.h"

namespace {

/// A descriptor 0, 1 or 2 that came closed would be given to the next file or socket, and messages would go there.
/// Opened for reading, it still refuses what is written to it.
void fill_standard_descriptors() {
  int fd = 0;
  while (fd >= 0 && fd <= 2) fd = open("/dev/null", O_RDONLY);
  if (fd > 2) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return colibri::run_command_line(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "colibri: out of memory\n");
    return static_cast<int>(colibri::Exit::config);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "colibri: the system refused: %s (see ulimit -u and ulimit -v)\n", error.what());
    return static_cast<int>(colibri::Exit::os);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "colibri: internal error: %s\n", error.what());
    return static_cast<int>(colibri::Exit::internal);
  }
}
