// SPDX-License-Identifier: Apache-2.0
// Large, page-aligned, zeroed blocks of memory for weights, KV and scratch: of the host, or of a device whose backend
// says how to release them.
// Invariant: a Buffer owns its block alone; it can be moved, never copied, and pages of the host are resident only once
// touched.
#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace colibri {

class Buffer {
 public:
  Buffer() = default;
  using Release = void (*)(std::byte* data, std::size_t bytes);
  /// Takes over a block that `release` frees.
  Buffer(std::byte* data, std::size_t bytes, Release release) : data_(data), bytes_(bytes), release_(release) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
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
  Release release_ = nullptr;
};

/// Peak resident bytes of this process so far.
std::size_t peak_resident_bytes();

/// Memory that this process may still take: the smaller of the system's available memory and its cgroup's limit.
std::size_t available_bytes();

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace colibri
