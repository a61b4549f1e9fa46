// SPDX-License-Identifier: Apache-2.0
// The counter of the eventfd is the flag: reading takes all of it.
#include "base/event.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>

#include "base/check.h"

namespace colibri {

Event::Event() : descriptor_(eventfd(0, EFD_CLOEXEC)) { CHECK(descriptor_ >= 0); }

Event::~Event() { close(descriptor_); }

void Event::signal() {
  const std::uint64_t one = 1;
  while (write(descriptor_, &one, sizeof one) < 0) CHECK(errno == EINTR);
}

void Event::wait() {
  std::uint64_t count = 0;
  while (read(descriptor_, &count, sizeof count) < 0) CHECK(errno == EINTR);
}

}  // namespace colibri
