// SPDX-License-Identifier: Apache-2.0
// POSIX reads. The type is asked before opening, since opening a device can act, and again after, since it may have
// been replaced in between.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

namespace colibri {
namespace {

Error system_error(const std::string& path, int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return {Exit::not_found, path + ": no such file"};
    case EACCES:
    case EPERM:
      return {Exit::not_found, path + ": no permission to read it"};
    case EMFILE:
    case ENFILE:
      return {Exit::os, path + ": too many open files (raise ulimit -n)"};
    default:
      return {Exit::io, path + ": " + std::strerror(code)};
  }
}

Status check_regular(const std::string& path, const struct stat& about) {
  if (!S_ISREG(about.st_mode)) return data_error(path + ": not a regular file");
  return {};
}

}  // namespace

Result<File> File::open(std::string path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return system_error(path, errno);
  TRY_STATUS(check_regular(path, about));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, errno);
  File file(fd, 0, std::move(path));
  if (::fstat(fd, &about) != 0) return system_error(file.path_, errno);
  TRY_STATUS(check_regular(file.path_, about));
  file.size_ = static_cast<std::uint64_t>(about.st_size);
  return file;
}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Status File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path_, errno);
    if (got == 0)
      return Error{Exit::io, path_ + ": ends at byte " + std::to_string(offset) + ", earlier than expected"};
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<std::string> read_file(const std::string& path, std::uint64_t max_bytes) {
  TRY(file, File::open(path));
  if (file.size() > max_bytes) {
    return data_error(path + ": " + std::to_string(file.size()) + " bytes are over the limit of " +
                      std::to_string(max_bytes));
  }
  std::string text(file.size(), '\0');
  TRY_STATUS(file.read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

bool path_exists(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0;
}

}  // namespace colibri
