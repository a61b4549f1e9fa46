// SPDX-License-Identifier: Apache-2.0
// The HTTP/1.1 server: a table of routes in front of sockets. The library behind it is seen in http.cpp alone.
//
// Invariant: a connection answers its requests in their order, one at a time; every limit is checked before memory is
// taken for what it limits; a handler runs on an io thread and must not block.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/exchange.h"

namespace colibri {

struct HttpRequest {
  std::string id;  // X-Request-Id: the client's where it sent a sound one
  std::string method;
  std::string path;                                          // without the query
  std::string tail;                                          // what the "*" of the route stands for, decoded
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
};

struct Route {
  std::string method;
  std::string path;  // whole, or ending in "/*"
  std::function<void(HttpRequest, std::shared_ptr<Exchange>)> handler;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: a free one
  int io_threads = 1;
  std::size_t max_body = std::size_t{8} << 20;
  std::size_t max_connections = 4096;
  std::chrono::milliseconds head_time{10'000};     // for a request's whole head
  std::chrono::milliseconds body_time{30'000};     // for its whole body
  std::chrono::milliseconds idle_time{60'000};     // between two requests
  std::chrono::milliseconds write_time{30'000};    // without any progress of a write
  std::chrono::milliseconds comment_time{15'000};  // of silence in a stream
};

class HttpServer {
 public:
  /// Listens and serves from here on. Error 71 where the address cannot be had.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, std::vector<Route> routes);

  /// Interrupts what still runs, waits up to a second for that to be written, and ends the threads.
  ~HttpServer();

  int port() const;
  /// host:port as a URL has it.
  std::string address() const;

  /// Closes idle connections, and others after the answer they are giving. New ones are still accepted.
  void drain();

  /// Requests whose answer has not been written to its end.
  int active() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace colibri
