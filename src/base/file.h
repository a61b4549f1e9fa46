// SPDX-License-Identifier: Apache-2.0
// Reading regular files: whole ones under a size limit, or ranges of large ones.
// Invariant: only regular files are ever opened for reading (symbolic links are followed), so no read can block on a
// pipe or a device. Errors carry the exit code: 66 missing or unreadable, 65 not a regular file, 74 I/O error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace colibri {

/// An open regular file. Reads at an offset are safe from several threads.
class File {
 public:
  static Result<File> open(std::string path);

  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), size_(other.size_), path_(std::move(other.path_)) {}
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // when it was opened

  /// Fills `out` from `offset` on; error 74 where the file ends earlier or cannot be read.
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  File(int fd, std::uint64_t size, std::string path) : fd_(fd), size_(size), path_(std::move(path)) {}

  int fd_ = -1;
  std::uint64_t size_ = 0;
  std::string path_;
};

/// The whole file; error 65 where it is larger than `max_bytes`.
Result<std::string> read_file(const std::string& path, std::uint64_t max_bytes);

/// Whether the path leads to anything, symbolic links followed.
bool path_exists(const std::string& path);

}  // namespace colibri
