// SPDX-License-Identifier: Apache-2.0
// Anonymous maps. Huge pages are asked for from 2 MiB on: below that they would only waste memory.
#include "base/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

namespace colibri {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// First number of a one-line file such as memory.max, or the maximum where there is none ("max", no file).
std::size_t number_in_file(const char* path) {
  std::ifstream file(path);
  std::string text;
  std::size_t value = std::numeric_limits<std::size_t>::max();
  if (std::getline(file, text)) std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Result<Buffer> Buffer::allocate(std::size_t bytes, std::string_view purpose) {
  if (bytes == 0) return Buffer();
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Error{Exit::config, std::string(purpose) + ": the system refused " + std::to_string(bytes) +
                                   " bytes of memory; lower --context or --max-batch, or choose a smaller model"};
  }
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return Buffer(static_cast<std::byte*>(data), bytes, [](std::byte* at, std::size_t size) { munmap(at, size); });
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) release_(data_, bytes_);
}

std::size_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

std::size_t available_bytes() {
  std::size_t available = std::numeric_limits<std::size_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    constexpr std::string_view kKey = "MemAvailable:";
    if (!line.starts_with(kKey)) continue;
    available = std::strtoull(line.c_str() + kKey.size(), nullptr, 10) * 1024;
    break;
  }
  const std::size_t limit = number_in_file("/sys/fs/cgroup/memory.max");
  const std::size_t used = number_in_file("/sys/fs/cgroup/memory.current");
  if (limit != std::numeric_limits<std::size_t>::max() && used <= limit) available = std::min(available, limit - used);
  return available;
}

}  // namespace colibri
