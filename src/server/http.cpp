// SPDX-License-Identifier: Apache-2.0
// Connections as coroutines, each on a strand of its own. Beast parses, after framing.h has looked at the head.
// Length: the one file that sees Asio and Beast, whose headers take longest to compile.
#ifdef __SANITIZE_THREAD__  // it does not know fences; its own locks are what orders Asio's operations then
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#endif
#include "server/http.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "base/threads.h"
#include "server/framing.h"

namespace colibri {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

constexpr std::size_t kReadBytes = 16 * 1024;       // of one read
constexpr std::size_t kReadAheadBytes = 64 * 1024;  // of pipelined requests, while an answer is on its way
constexpr std::size_t kMaxChunks = 8192;
constexpr std::size_t kMaxChunkExtension = 256;
constexpr auto kLingerTime = std::chrono::seconds(2);  // for a client to read the answer before the socket closes
constexpr auto kStopTime = std::chrono::seconds(1);    // for interrupted answers to be written
constexpr int kPeerTimeoutMs = 30'000;                 // a peer that acknowledges nothing is dead

ApiError body_too_large(std::size_t limit) {
  return {.status = 413, .code = "body_too_large", .message = "the body exceeds " + std::to_string(limit) + " bytes"};
}

ApiError too_slow() { return {.status = 408, .code = "timeout", .message = "the request came too slowly"}; }

ApiError bad_framing(std::string message) {
  return {.status = 400, .code = "bad_framing", .message = std::move(message)};
}

ApiError read_error(const error_code& ec, std::size_t max_body) {
  if (ec == http::error::body_limit) return body_too_large(max_body);
  return bad_framing("the request cannot be read: " + ec.message());
}

std::string request_id(std::string_view wanted) {
  const auto sound = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '.';
  };
  if (!wanted.empty() && wanted.size() <= 128 && std::all_of(wanted.begin(), wanted.end(), sound))
    return std::string(wanted);
  thread_local std::mt19937_64 random{std::random_device{}()};
  char text[32];
  std::snprintf(text, sizeof text, "req_%016llx", static_cast<unsigned long long>(random()));
  return text;
}

}  // namespace

struct HttpServer::State {
  class Connection;

  State(HttpOptions wanted, std::vector<Route> table) : options(std::move(wanted)), routes(std::move(table)) {}

  awaitable<void> accept();
  void for_each_connection(void (*action)(Connection&));

  const HttpOptions options;
  const std::vector<Route> routes;
  std::atomic<int> active{0};
  std::atomic<bool> draining{false};
  std::mutex mutex;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;  // under mutex
  asio::io_context io;
  tcp::acceptor acceptor{io};
  std::vector<std::thread> threads;  // last: they use all of the above
};

/// Everything here runs on the connection's strand.
class HttpServer::State::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(State& server, tcp::socket socket)
      : server_(server), socket_(std::move(socket)), deadline_(socket_.get_executor()), wake_(socket_.get_executor()) {}
  ~Connection() {
    if (exchange_) {  // the server ends before the answer does
      exchange_->leave();
      exchange_->detach();
    }
    const std::lock_guard lock(server_.mutex);
    server_.connections.erase(this);
  }

  awaitable<void> run();
  awaitable<void> refuse();

  void drain() {
    if (idle_) cancel();
    if (exchange_) exchange_->close_after();
  }
  void interrupt() {
    if (exchange_)
      exchange_->interrupt({.status = 503, .code = "shutting_down", .message = "the server stops", .retry_after = 5});
    else
      cancel();
  }
  tcp::socket& socket() { return socket_; }

 private:
  /// A request as far as it was read: whole, or with the error to answer, or nothing where the peer has left.
  struct Incoming {
    HttpRequest request;
    Exchange::Framing framing;
    const Route* route = nullptr;
    std::optional<ApiError> error;
    bool closed = false;
  };

  awaitable<Incoming> read_request(bool first);
  awaitable<std::optional<std::size_t>> read_head(bool first, Incoming& incoming);
  awaitable<void> read_body(http::request_parser<http::string_body>& parser, Incoming& incoming);
  void find_route(Incoming& incoming) const;
  awaitable<error_code> read_some();
  awaitable<bool> write_all(std::string_view bytes);
  awaitable<void> pump();
  awaitable<void> watch();
  awaitable<void> linger();
  void log(const Incoming& incoming, Clock::time_point start) const;

  /// Ends the socket's pending operations.
  void cancel() {
    error_code already_closed;
    socket_.cancel(already_closed);
  }

  void expire_in(Clock::duration time) {
    timed_out_ = false;
    deadline_.expires_after(time);
    deadline_.async_wait([weak = weak_from_this()](const error_code& ec) {
      const auto self = weak.lock();
      if (ec || !self || self->deadline_.expiry() > Clock::now()) return;
      self->timed_out_ = true;
      self->cancel();
    });
  }
  void no_deadline() {
    timed_out_ = false;
    deadline_.expires_at(Clock::time_point::max());
  }

  State& server_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  asio::steady_timer wake_;  // cancelled when the exchange has output
  std::string in_;           // bytes read and not yet parsed
  std::shared_ptr<Exchange> exchange_;
  bool timed_out_ = false;
  bool idle_ = false;     // between two requests
  bool eof_ = false;      // the peer has closed its sending side
  bool written_ = false;  // the answer is written to its end, and the connection can go on
};

awaitable<error_code> HttpServer::State::Connection::read_some() {
  if (eof_) co_return asio::error::eof;
  const std::size_t old = in_.size();
  in_.resize(old + kReadBytes);
  auto [ec, n] = co_await socket_.async_read_some(asio::buffer(in_.data() + old, kReadBytes), kTuple);
  in_.resize(old + n);
  if (ec == asio::error::eof) eof_ = true;
  co_return ec;
}

/// The length of the next head in in_, with its empty line; nothing where there is an error or nobody.
awaitable<std::optional<std::size_t>> HttpServer::State::Connection::read_head(bool first, Incoming& incoming) {
  const auto fail = [&](ApiError error) -> std::optional<std::size_t> {
    incoming.error = std::move(error);
    return std::nullopt;
  };
  const auto too_large = [] {
    return ApiError{.status = 431, .code = "headers_too_large", .message = "the header block exceeds 16384 bytes"};
  };
  bool waiting = !first && in_.empty();
  bool line_checked = false;
  std::size_t seen = 0;
  expire_in(waiting ? server_.options.idle_time : server_.options.head_time);
  for (;;) {
    if (seen == 0 && in_.starts_with("\r\n")) in_.erase(0, 2);  // RFC 9112, 2.2: an empty line before the request
    const std::size_t end = in_.find("\r\n\r\n", seen > 3 ? seen - 3 : 0);
    const std::string_view head(in_.data(), end == std::string::npos ? in_.size() : end + 2);
    for (std::size_t at = head.find('\n', seen); at != std::string_view::npos; at = head.find('\n', at + 1)) {
      if (at == 0 || head[at - 1] != '\r') co_return fail(bad_framing("a header line does not end with CRLF"));
      if (std::exchange(line_checked, true)) continue;
      if (auto wrong = check_request_line(head.substr(0, at - 1))) co_return fail(std::move(*wrong));
    }
    // Something else than HTTP (a TLS hello) is told at its first byte.
    if (!head.empty() && (head[0] < 'A' || head[0] > 'Z')) co_return fail(bad_framing("this is not HTTP"));
    if (!line_checked && head.size() > kMaxTargetBytes + 64)
      co_return fail({.status = 414, .code = "target_too_long", .message = "the request target exceeds 8192 bytes"});
    if (head.size() > kMaxHeadBytes) co_return fail(too_large());
    if (end != std::string::npos) {
      if (auto wrong = check_head(head)) co_return fail(std::move(*wrong));
      co_return end + 4;
    }
    seen = in_.size();
    if (waiting && !in_.empty()) {
      waiting = false;
      expire_in(server_.options.head_time);
    }
    idle_ = waiting;
    if (idle_ && server_.draining) co_return std::nullopt;
    const error_code ec = co_await read_some();
    idle_ = false;
    if (ec) {
      if (timed_out_ && !in_.empty()) co_return fail(too_slow());
      co_return std::nullopt;
    }
  }
}

void HttpServer::State::Connection::find_route(Incoming& incoming) const {
  HttpRequest& request = incoming.request;
  std::string allow;
  for (const Route& route : server_.routes) {
    const bool prefix = route.path.ends_with("/*");
    const std::string_view stem = std::string_view(route.path).substr(0, route.path.size() - (prefix ? 1 : 0));
    if (prefix ? !(request.path.starts_with(stem) && request.path.size() > stem.size()) : request.path != stem)
      continue;
    if (route.method != request.method) {
      allow += (allow.empty() ? "" : ", ") + route.method;
      continue;
    }
    const auto tail = percent_decoded(std::string_view(request.path).substr(stem.size()));
    if (!tail) {
      incoming.error = bad_framing("the path has a broken %-escape");
      return;
    }
    request.tail = *tail;
    incoming.route = &route;
    if (request.method == "POST") incoming.error = check_json_content(request.headers);
    return;
  }
  if (allow.empty()) {
    incoming.error = ApiError{.status = 404, .code = "not_found", .message = "there is no such path"};
  } else {
    incoming.error =
        ApiError{.status = 405, .code = "method_not_allowed", .message = "this path takes " + allow, .allow = allow};
  }
}

awaitable<void> HttpServer::State::Connection::read_body(http::request_parser<http::string_body>& parser,
                                                         Incoming& incoming) {
  std::size_t chunks = 0;
  auto on_chunk = [&](std::uint64_t, boost::beast::string_view extensions, error_code& ec) {
    if (++chunks > kMaxChunks) {
      incoming.error = ApiError{.status = 413, .code = "too_many_chunks", .message = "more than 8192 chunks"};
      ec = http::error::body_limit;
    } else if (extensions.size() > kMaxChunkExtension) {
      ec = http::error::bad_chunk_extension;
    }
  };
  parser.on_chunk_header(on_chunk);
  parser.eager(true);
  expire_in(server_.options.body_time);
  while (!parser.is_done()) {
    if (!in_.empty()) {
      error_code ec;
      const std::size_t used = parser.put(asio::buffer(in_), ec);
      in_.erase(0, used);
      if (ec && ec != http::error::need_more) {
        if (!incoming.error) incoming.error = read_error(ec, server_.options.max_body);
        co_return;
      }
      if (used > 0) continue;
      if (in_.size() > kMaxHeadBytes) {  // a chunk's line, or a trailer
        incoming.error = bad_framing("a chunk has no end");
        co_return;
      }
    }
    if (co_await read_some()) {
      if (timed_out_) {
        incoming.error = too_slow();
      } else {
        incoming.closed = true;
      }
      co_return;
    }
  }
}

awaitable<HttpServer::State::Connection::Incoming> HttpServer::State::Connection::read_request(bool first) {
  Incoming incoming;
  incoming.framing.keep_alive = false;  // until the request is whole
  incoming.framing.request_id = request_id({});
  const std::optional<std::size_t> head = co_await read_head(first, incoming);
  if (!head) {
    incoming.closed = !incoming.error;
    co_return incoming;
  }
  http::request_parser<http::string_body> parser;
  parser.header_limit(2 * kMaxHeadBytes);  // framing.h has the say
  parser.body_limit(server_.options.max_body);
  parser.eager(false);
  error_code ec;
  in_.erase(0, parser.put(asio::buffer(in_.data(), *head), ec));
  if (ec && ec != http::error::need_more) {
    incoming.error = read_error(ec, server_.options.max_body);
    co_return incoming;
  }
  HttpRequest& request = incoming.request;
  for (const auto& field : parser.get()) {
    std::string name(field.name_string());
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request.id = incoming.framing.request_id = request_id(header(request.headers, "x-request-id"));
  request.method = std::string(parser.get().method_string());
  request.path = std::string(path_of({parser.get().target().data(), parser.get().target().size()}));
  incoming.framing.http10 = parser.get().version() == 10;
  incoming.framing.head_only = request.method == "HEAD";

  find_route(incoming);
  const bool keep_alive = parser.keep_alive();
  if (!parser.is_done() && !incoming.error) {
    if (!incoming.framing.http10 && in_.empty() &&
        boost::beast::iequals(parser.get()[http::field::expect], "100-continue"))
      co_await write_all("HTTP/1.1 100 Continue\r\n\r\n");
    co_await read_body(parser, incoming);
  }
  incoming.framing.keep_alive = keep_alive && parser.is_done() && !server_.draining;
  if (parser.is_done()) request.body = std::move(parser.get().body());
  co_return incoming;
}

/// False where the peer takes nothing for write_time, or has gone.
awaitable<bool> HttpServer::State::Connection::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    expire_in(server_.options.write_time);
    auto [ec, n] = co_await socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), kTuple);
    if (ec) co_return false;
    bytes.remove_prefix(n);
  }
  no_deadline();
  co_return true;
}

/// Writes what the exchange has, until its end.
awaitable<void> HttpServer::State::Connection::pump() {
  for (;;) {
    const Exchange::Output output = exchange_->take();
    if (!co_await write_all(output.bytes)) {
      exchange_->leave();
      co_return;
    }
    if (output.end) {
      written_ = !output.close;
      co_return;
    }
    if (!output.bytes.empty()) continue;
    wake_.expires_after(server_.options.comment_time);
    const auto [ec] = co_await wake_.async_wait(kTuple);
    if (!ec) exchange_->keep_alive();
  }
}

/// Looks for a client that leaves while its answer is on the way, and reads ahead what it sends meanwhile.
awaitable<void> HttpServer::State::Connection::watch() {
  while (!eof_ && in_.size() < kReadAheadBytes) {
    const error_code ec = co_await read_some();
    if (ec == asio::error::operation_aborted) co_return;
    if (ec && !eof_) {
      exchange_->leave();
      co_return;
    }
  }
  if (eof_) exchange_->probe();
  const auto [ec] = co_await socket_.async_wait(tcp::socket::wait_error, kTuple);
  if (ec != asio::error::operation_aborted) exchange_->leave();
}

/// An answer that comes before the request was read would be lost in the reset that closing with unread bytes sends.
awaitable<void> HttpServer::State::Connection::linger() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  expire_in(kLingerTime);
  while (!eof_ && !timed_out_) {
    in_.clear();
    if (co_await read_some()) break;
  }
}

void HttpServer::State::Connection::log(const Incoming& incoming, Clock::time_point start) const {
  const Exchange::Record record = exchange_->record();
  const auto ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  Json::Object fields{{"rid", incoming.framing.request_id},
                      {"route", incoming.route != nullptr ? Json(incoming.route->path) : Json()},
                      {"status", record.status}};
  if (!record.code.empty()) fields.emplace_back("code", record.code);
  if (incoming.error && !incoming.error->param.empty()) fields.emplace_back("param", incoming.error->param);
  fields.emplace_back("in_tok", record.prompt_tokens);
  fields.emplace_back("out_tok", record.generated_tokens);
  fields.emplace_back("ms", std::round(ms * 1000) / 1000);
  log_event(LogLevel::info, "req_end", std::move(fields));
}

awaitable<void> HttpServer::State::Connection::run() {
  using namespace asio::experimental::awaitable_operators;
  const auto self = shared_from_this();
  for (bool first = true;; first = false) {
    Incoming incoming = co_await read_request(first);
    if (incoming.closed) break;
    no_deadline();
    const auto start = Clock::now();
    server_.active.fetch_add(1);
    written_ = false;
    exchange_ = std::make_shared<Exchange>(incoming.framing, [this] {
      asio::post(socket_.get_executor(), [weak = weak_from_this()] {
        if (const auto connection = weak.lock()) connection->wake_.cancel();
      });
    });
    if (incoming.error) {
      exchange_->fail(*incoming.error);
    } else {
      try {
        incoming.route->handler(std::move(incoming.request), exchange_);
      } catch (const std::exception& error) {  // the wall: whatever a handler's libraries throw
        log_event(LogLevel::error, "exception", {{"rid", incoming.framing.request_id}, {"what", error.what()}});
        exchange_->fail({.status = 500, .code = "internal_error", .message = "internal error"});
      }
    }
    co_await (pump() || watch());
    if (!written_) exchange_->leave();
    log(incoming, start);
    exchange_->detach();
    exchange_.reset();
    server_.active.fetch_sub(1);
    if (!written_) {
      co_await linger();
      break;
    }
  }
  error_code ignored;
  socket_.close(ignored);
}

/// Too many connections: an answer without reading.
awaitable<void> HttpServer::State::Connection::refuse() {
  const auto self = shared_from_this();
  const ApiError error{.status = 503, .code = "overloaded", .message = "too many connections", .retry_after = 1};
  const std::string body = error.body();
  co_await write_all(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
      "Connection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  co_await linger();
}

awaitable<void> HttpServer::State::accept() {
  for (;;) {
    auto [ec, socket] = co_await acceptor.async_accept(asio::make_strand(io), kTuple);
    if (ec == asio::error::operation_aborted) co_return;
    if (ec) {  // out of descriptors, most likely: those in use will end
      asio::steady_timer pause(io, std::chrono::milliseconds(100));
      co_await pause.async_wait(kTuple);
      continue;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    using UserTimeout = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
    socket.set_option(UserTimeout(kPeerTimeoutMs), ignored);
    using KeepIdle = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
    socket.set_option(KeepIdle(kPeerTimeoutMs / 3000), ignored);
    using KeepInterval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
    socket.set_option(KeepInterval(kPeerTimeoutMs / 3000), ignored);
    auto connection = std::make_shared<Connection>(*this, std::move(socket));
    bool full = false;
    {
      const std::lock_guard lock(mutex);
      full = connections.size() >= options.max_connections;
      if (!full) connections.emplace(connection.get(), connection);
    }
    asio::co_spawn(connection->socket().get_executor(), full ? connection->refuse() : connection->run(),
                   [](const std::exception_ptr& failure) {
                     if (failure) log_event(LogLevel::error, "exception", {{"what", "a connection's coroutine"}});
                   });
  }
}

void HttpServer::State::for_each_connection(void (*action)(Connection&)) {
  std::vector<std::shared_ptr<Connection>> open;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [_, weak] : connections)
      if (auto connection = weak.lock()) open.push_back(std::move(connection));
  }
  for (auto& connection : open) {
    const auto executor = connection->socket().get_executor();
    asio::post(executor, [connection = std::move(connection), action] { action(*connection); });
  }
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, std::vector<Route> routes) {
  auto state = std::make_unique<State>(options, std::move(routes));
  const auto refused = [&](const error_code& ec) {
    return Error{Exit::os, options.host + ":" + std::to_string(options.port) +
                               ": cannot listen there: " + ec.message() + "; choose another --port or --host"};
  };
  error_code ec;
  tcp::resolver resolver(state->io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, ec);
  if (ec || found.empty()) return refused(ec);
  const tcp::endpoint endpoint = *found.begin();
  state->acceptor.open(endpoint.protocol(), ec);
  if (!ec) state->acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) state->acceptor.bind(endpoint, ec);
  if (!ec) state->acceptor.listen(4096, ec);
  if (ec) return refused(ec);
  asio::co_spawn(state->io, state->accept(), asio::detached);
  for (int i = 0; i < options.io_threads; ++i) {
    state->threads.emplace_back([io = &state->io, i] {
      name_this_thread("http-" + std::to_string(i));
      io->run();
    });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::~HttpServer() {
  drain();
  const auto limit = Clock::now() + kStopTime;
  state_->for_each_connection([](State::Connection& connection) { connection.interrupt(); });
  while (active() > 0 && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
}

int HttpServer::port() const {
  error_code ignored;
  return state_->acceptor.local_endpoint(ignored).port();
}

std::string HttpServer::address() const {
  const std::string& host = state_->options.host;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port());
}

void HttpServer::drain() {
  state_->draining = true;
  state_->for_each_connection([](State::Connection& connection) { connection.drain(); });
}

int HttpServer::active() const { return state_->active.load(); }

}  // namespace colibri
