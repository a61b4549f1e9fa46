// SPDX-License-Identifier: Apache-2.0
// One request's answer on its way out: whole, or as a stream of server-sent events. The service fills it from any
// thread; the connection empties it on its own.
//
// Invariant: exactly one answer leaves. Before the first byte of a stream a failure is a plain HTTP error; after it, an
// event, and the connection closes without the last chunk, so that a client can tell a cut stream from a whole one.
// A stream that the client does not read holds at most kStreamBytes here.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"

namespace colibri {

inline constexpr std::size_t kStreamBytes = 64 * 1024;

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

class Exchange {
 public:
  struct Framing {
    std::string request_id = {};
    bool http10 = false;
    bool head_only = false;  // the request was HEAD: no body follows
    bool keep_alive = true;
  };

  /// `wake` is called, from any thread, when there is something to take().
  Exchange(Framing framing, std::function<void()> wake) : framing_(std::move(framing)), wake_(std::move(wake)) {}

  // For the service. Any thread; calls after the answer has ended, or the client has gone, do nothing.

  void respond(const HttpResponse& response);
  void fail(const ApiError& error);

  /// The answer will be a stream. Nothing is sent before the first event, but for comments that keep it alive.
  void open_stream();
  /// One event: "data: {text}". A client that has let kStreamBytes pile up is given up.
  void send_event(std::string_view text);
  void end_stream();

  /// Called once, on the thread that notices, when the answer is not wanted any more: the client has gone or reads too
  /// slowly, or the server stops. At once where that has happened. Must not call back.
  void on_gone(std::function<void()> callback);

  /// For the access log.
  void count_tokens(int prompt, int generated);

  // For the connection.

  struct Output {
    std::string bytes;
    bool end = false;    // nothing follows
    bool close = false;  // the connection cannot be used again
  };
  Output take();

  /// A comment where a stream is silent, so that nobody between takes the connection for dead.
  void keep_alive();
  /// The client closed its sending side: legal, or it has gone. An interim answer finds out: to a closed socket it is
  /// answered by a reset.
  void probe();
  void leave();
  /// fail() from the server's side: the service hears of it through on_gone.
  void interrupt(const ApiError& error);
  void close_after();
  /// The connection ends: it is not woken any more once this returns.
  void detach();

  struct Record {
    int status = 0;    // 499: the client has gone
    std::string code;  // of an error
    int prompt_tokens = 0;
    int generated_tokens = 0;
  };
  Record record() const;

 private:
  enum class State { waiting, streaming, ended };

  void fail_locked(const ApiError& error);
  void respond_locked(const HttpResponse& response);
  void stream_locked(std::string_view text);
  void head_locked(int status, std::string_view content_type, std::string_view extra);
  void leave_locked();
  void wake_locked();
  void call_gone();

  Framing framing_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;  // called under mutex_
  State state_ = State::waiting;
  bool stream_open_ = false;
  bool gone_ = false;
  bool gone_called_ = false;
  bool close_ = false;
  bool woken_ = false;
  std::string pending_;
  std::size_t in_flight_ = 0;  // bytes taken last time: not known to be written
  std::function<void()> on_gone_;
  Record record_;
};

}  // namespace colibri
