// SPDX-License-Identifier: Apache-2.0
// A client made of bytes, for what no well-behaved client sends.
// Invariant: nothing here waits longer than kPatienceMs.
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace colibri {

constexpr int kPatienceMs = 10'000;

class Client {
 public:
  explicit Client(int port, int receive_buffer = 0) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { leave(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  void half_close() const { shutdown(fd_, SHUT_WR); }
  void leave() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  /// Closes so that the server gets a reset.
  void reset() {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    leave();
  }

  /// Reads until `wanted` has come (and all of it, should more have come), or the end.
  std::string read_until(std::string_view wanted) {
    while (wanted.empty() || text_.find(wanted) == std::string::npos)
      if (!read_more()) break;
    return text_;
  }
  std::string read_to_end() { return read_until({}); }
  /// Whether the server has closed, within patience.
  bool ended() {
    read_to_end();
    return ended_;
  }
  const std::string& text() const { return text_; }

 private:
  bool read_more() {
    pollfd one{fd_, POLLIN, 0};
    if (ended_ || poll(&one, 1, kPatienceMs) <= 0) return false;
    char bytes[16384];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    text_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  int fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string text_;
};

inline int count(std::string_view text, std::string_view part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace colibri
