// SPDX-License-Identifier: Apache-2.0
// The service's callback runs outside of the lock, since it may take locks of its own.
#include "server/exchange.h"

#include <charconv>

namespace colibri {
namespace {

std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 400 ? "OK" : status < 500 ? "Error" : "Internal Server Error";
  }
}

}  // namespace

void Exchange::respond(const HttpResponse& response) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::waiting) respond_locked(response);
}

void Exchange::fail(const ApiError& error) {
  const std::lock_guard lock(mutex_);
  fail_locked(error);
}

void Exchange::open_stream() {
  const std::lock_guard lock(mutex_);
  stream_open_ = true;
}

void Exchange::send_event(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::ended) return;
    if (pending_.size() + in_flight_ + text.size() <= kStreamBytes) {
      std::string event;
      event.reserve(text.size() + 8);
      event.append("data: ").append(text).append("\n\n");
      stream_locked(event);
      return;
    }
    record_.code = "slow_reader";
    leave_locked();
  }
  call_gone();
}

void Exchange::end_stream() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::ended) return;
  stream_locked("data: [DONE]\n\n");
  if (!framing_.http10) pending_ += "0\r\n\r\n";
  close_ = close_ || framing_.http10;
  state_ = State::ended;
  wake_locked();
}

void Exchange::on_gone(std::function<void()> callback) {
  bool now = false;
  {
    const std::lock_guard lock(mutex_);
    on_gone_ = std::move(callback);
    now = gone_;
  }
  if (now) call_gone();
}

void Exchange::count_tokens(int prompt, int generated) {
  const std::lock_guard lock(mutex_);
  record_.prompt_tokens = prompt;
  record_.generated_tokens = generated;
}

Exchange::Output Exchange::take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  in_flight_ = pending_.size();
  return {std::exchange(pending_, {}), state_ == State::ended, close_ || !framing_.keep_alive};
}

void Exchange::keep_alive() {
  const std::lock_guard lock(mutex_);
  if (stream_open_ && state_ != State::ended && pending_.empty()) stream_locked(": keep-alive\n\n");
}

void Exchange::probe() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::waiting || framing_.http10) return;
  pending_ += "HTTP/1.1 102 Processing\r\n\r\n";
  wake_locked();
}

void Exchange::leave() {
  {
    const std::lock_guard lock(mutex_);
    leave_locked();
  }
  call_gone();
}

void Exchange::interrupt(const ApiError& error) {
  {
    const std::lock_guard lock(mutex_);
    fail_locked(error);
    gone_ = true;
  }
  call_gone();
}

Exchange::Record Exchange::record() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

void Exchange::close_after() {
  const std::lock_guard lock(mutex_);
  framing_.keep_alive = false;
}

void Exchange::detach() {
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
}

void Exchange::fail_locked(const ApiError& error) {
  if (state_ == State::ended) return;
  record_.code = error.code;
  if (state_ == State::waiting) {
    HttpResponse response{.status = error.status, .body = error.body()};
    if (error.retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
    if (!error.allow.empty()) response.headers.emplace_back("Allow", error.allow);
    respond_locked(response);
    return;
  }
  stream_locked("data: " + error.body() + "\n\n");
  record_.status = error.status;
  close_ = true;
  state_ = State::ended;
  wake_locked();
}

void Exchange::respond_locked(const HttpResponse& response) {
  std::string extra = "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  for (const auto& [name, value] : response.headers) extra.append(name).append(": ").append(value).append("\r\n");
  head_locked(response.status, response.content_type, extra);
  if (!framing_.head_only) pending_ += response.body;
  state_ = State::ended;
  wake_locked();
}

/// Bytes of the stream's body: one chunk of HTTP, after the head where this is the first.
void Exchange::stream_locked(std::string_view text) {
  if (state_ == State::waiting) {
    head_locked(
        200, "text/event-stream",
        framing_.http10 ? "Cache-Control: no-cache\r\n" : "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n");
    state_ = State::streaming;
  }
  if (framing_.http10) {
    pending_ += text;
  } else {
    char size[20];
    const auto end = std::to_chars(size, size + sizeof size, text.size(), 16).ptr;
    pending_.append(size, end).append("\r\n").append(text).append("\r\n");
  }
  wake_locked();
}

void Exchange::head_locked(int status, std::string_view content_type, std::string_view extra) {
  record_.status = status;
  pending_.append("HTTP/1.1 ").append(std::to_string(status)).append(" ").append(reason(status)).append("\r\n");
  pending_.append("Content-Type: ").append(content_type).append("\r\n");
  pending_.append("X-Request-Id: ").append(framing_.request_id).append("\r\n").append(extra);
  const bool stays = framing_.keep_alive && !close_;
  if (!stays) {
    pending_ += "Connection: close\r\n";
  } else if (framing_.http10 && content_type != "text/event-stream") {
    pending_ += "Connection: keep-alive\r\n";
  }
  pending_ += "\r\n";
}

void Exchange::leave_locked() {
  gone_ = true;
  if (state_ == State::ended && pending_.empty()) return;
  record_.status = 499;
  pending_.clear();
  close_ = true;
  state_ = State::ended;
  wake_locked();
}

void Exchange::wake_locked() {
  if (wake_ && !std::exchange(woken_, true)) wake_();
}

void Exchange::call_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (gone_called_ || !on_gone_) return;
    gone_called_ = true;
    callback = std::move(on_gone_);
  }
  callback();
}

}  // namespace colibri
