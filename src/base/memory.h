// SPDX-License-Identifier: Apache-2.0
// Large, page-aligned, zeroed blocks of host memory for weights, KV and scratch.
// Invariant: a Buffer owns its pages alone; it can be moved, never copied, and pages are resident only once touched.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace colibri {

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  /// Maps `bytes` of zeroed memory (huge pages where the system gives them). Error 78 names the size and `purpose`.
  static Result<Buffer> allocate(std::size_t bytes, std::string_view purpose);

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Peak resident bytes of this process so far.
std::size_t peak_resident_bytes();

/// Memory that this process may still take: the smaller of the system's available memory and its cgroup's limit.
std::size_t available_bytes();

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace colibri
