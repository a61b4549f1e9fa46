// SPDX-License-Identifier: Apache-2.0
// The server's sockets: framing by raw bytes, limits by shortened times, clients that leave or do not read.
#include "server/http.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "loopback.h"

namespace colibri {
namespace {

using namespace std::chrono_literals;

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < kPatienceMs; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

/// /echo gives the body back; /hold waits for the test; /stream sends events until its client has gone.
class HttpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.port = 0;
    options_.io_threads = 2;
    options_.head_time = 300ms;
    options_.body_time = 300ms;
    options_.idle_time = 500ms;
    options_.write_time = 500ms;
    options_.comment_time = 60ms;
    options_.max_body = 100'000;
  }
  void TearDown() override {
    server_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  void start() {
    const auto echo = [](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
      exchange->respond({.body = request.body.empty() ? "path " + request.path : request.body});
    };
    const auto hold = [this](const HttpRequest&, const std::shared_ptr<Exchange>& exchange) {
      exchange->on_gone([this] { ++gone_; });
      const std::lock_guard lock(mutex_);
      held_.push_back(exchange);
    };
    const auto stream = [this](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
      exchange->open_stream();
      auto gone = std::make_shared<std::atomic<bool>>(false);
      exchange->on_gone([this, gone] {
        *gone = true;
        ++gone_;
      });
      const std::lock_guard lock(mutex_);
      threads_.emplace_back([gone, exchange, size = request.body.size()] {
        const std::string event(size * 100, 'x');
        for (int i = 0; i < 20'000 && !*gone; ++i) {
          exchange->send_event(event + std::to_string(i));
          std::this_thread::sleep_for(1ms);
        }
        exchange->end_stream();
      });
    };
    auto server = HttpServer::start(
        options_, {{"GET", "/echo", echo},
                   {"POST", "/echo", echo},
                   {"POST", "/hold", hold},
                   {"POST", "/stream", stream},
                   {"GET", "/item/*", [](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
                      exchange->respond({.body = "tail " + request.tail});
                    }}});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }

  std::shared_ptr<Exchange> held(std::size_t index) {
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex_);
      return held_.size() > index;
    }));
    const std::lock_guard lock(mutex_);
    return held_.at(index);
  }

  /// Status of the answer to these bytes; 0 where the connection just ends.
  int status_of(std::string_view bytes) {
    Client client(server_->port());
    client.send(bytes);
    client.half_close();
    std::string text = client.read_to_end();
    while (text.starts_with("HTTP/1.1 102")) text.erase(0, text.find("\r\n\r\n") + 4);
    return text.size() < 12 ? 0 : std::atoi(text.c_str() + 9);
  }

  static std::string post(const std::string& path, const std::string& body, const std::string& more = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + more +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  static std::string chunked(const std::string& chunks) {
    return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
           chunks;
  }

  HttpOptions options_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> held_;
  std::vector<std::thread> threads_;
  std::atomic<int> gone_{0};
  std::unique_ptr<HttpServer> server_;
};

constexpr const char* kGet = "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(HttpTest, Statuses) {
  start();
  const std::pair<std::string, int> cases[] = {
      {kGet, 200},
      {"\r\n" + std::string(kGet), 200},
      {"GET http://x/echo?a HTTP/1.1\r\nHost: x\r\n\r\n", 200},
      {"GET /echo HTTP/1.0\r\n\r\n", 200},
      {"GET /item/a/b%20c HTTP/1.1\r\nHost: x\r\n\r\n", 200},
      {"GET /item/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /none HTTP/1.1\r\nHost: x\r\n\r\n", 404},
      {"GET /item/ HTTP/1.1\r\nHost: x\r\n\r\n", 404},
      {"DELETE /echo HTTP/1.1\r\nHost: x\r\n\r\n", 405},
      {"TRACE /echo HTTP/1.1\r\nHost: x\r\n\r\n", 501},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"GET /echo\r\n", 400},
      {"\x16\x03\x01\x02", 400},
      {"GET /echo HTTP/1.1\nHost: x\n\n", 400},
      {"GET /echo HTTP/1.1\r\nHost: x/health?\r\n\r\n", 400},
      {post("/echo", "{}"), 200},
      {post("/echo", "{}", "Transfer-Encoding: chunked\r\n"), 400},
      {post("/echo", "{}", "Content-Encoding: gzip\r\n"), 415},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 415},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10737418240\r\n\r\n", 413},
      {chunked("5\r\nhello\r\n0\r\n\r\n"), 200},
      {chunked("5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"), 200},
      {chunked("5\r\nhelloXX0\r\n\r\n"), 400},
      {chunked("FFFFFFFFFFFFFFFFF\r\n"), 400},
      {chunked("-1\r\n"), 400},
      {chunked("\r\n"), 400},
      {chunked("5;" + std::string(300, 'a') + "=b\r\nhello\r\n0\r\n\r\n"), 400},
      {"GET /" + std::string(65536, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
      {"GET /echo HTTP/1.1\r\nHost: x\r\nA: " + std::string(1 << 20, 'a') + "\r\n\r\n", 431},
  };
  for (const auto& [bytes, status] : cases) EXPECT_EQ(status_of(bytes), status) << bytes.substr(0, 200);
}

TEST_F(HttpTest, ErrorsAreJsonWithAnId) {
  start();
  Client client(server_->port());
  client.send("PUT /echo HTTP/1.1\r\nHost: x\r\nX-Request-Id: my-id.1\r\n\r\n");
  const std::string text = client.read_until("}}");
  EXPECT_NE(text.find("\r\nAllow: GET, POST\r\n"), std::string::npos);
  EXPECT_NE(text.find("\r\nX-Request-Id: my-id.1\r\n"), std::string::npos);
  EXPECT_NE(text.find("\"code\":\"method_not_allowed\""), std::string::npos);
  EXPECT_NE(text.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
}

TEST_F(HttpTest, TooManyChunks) {
  start();
  std::string chunks;
  for (int i = 0; i < 100'000; ++i) chunks += "1\r\na\r\n";
  EXPECT_EQ(status_of(chunked(chunks + "0\r\n\r\n")), 413);
}

TEST_F(HttpTest, BodyOverTheLimitInChunks) {
  start();
  EXPECT_EQ(status_of(chunked("20000\r\n" + std::string(0x20000, 'a') + "\r\n0\r\n\r\n")), 413);
}

TEST_F(HttpTest, NoBodyIsInvitedThatIsTooLarge) {
  start();
  Client large(server_->port());
  large.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: "
      "10737418240\r\n\r\n");
  EXPECT_EQ(large.read_until("}}").find("HTTP/1.1 413"), 0U);
  Client fine(server_->port());
  fine.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: "
      "2\r\n\r\n");
  EXPECT_EQ(fine.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  fine.send("{}");
  EXPECT_TRUE(fine.read_until("{}").ends_with("{}"));
}

TEST_F(HttpTest, SmuggledRequestIsNotRun) {
  start();
  Client client(server_->port());
  client.send(post("/echo", "", "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n" + kGet);
  const std::string text = client.read_to_end();
  EXPECT_EQ(count(text, "HTTP/1.1 "), 1) << text;
  EXPECT_EQ(text.find("HTTP/1.1 400"), 0U);
}

TEST_F(HttpTest, PipelinedRequestsInOrder) {
  start();
  Client client(server_->port());
  std::string all;
  for (int i = 0; i < 50; ++i) all += post("/echo", "[" + std::to_string(i) + "]");
  client.send(all);
  const std::string text = client.read_until("[49]");
  std::size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    const std::size_t next = text.find("[" + std::to_string(i) + "]", at);
    ASSERT_NE(next, std::string::npos) << i;
    at = next;
  }
  EXPECT_EQ(count(text, "HTTP/1.1 200 OK"), 50);
}

TEST_F(HttpTest, PipelinedBehindAHeldAnswer) {
  start();
  Client client(server_->port());
  client.send(post("/hold", "{}") + kGet);
  const auto exchange = held(0);
  exchange->respond({.body = "first"});
  const std::string text = client.read_until("path /echo");
  EXPECT_LT(text.find("first"), text.find("path /echo"));
}

TEST_F(HttpTest, ByteByByte) {
  options_.head_time = options_.body_time = 10s;
  start();
  Client client(server_->port());
  for (const char byte : post("/echo", R"({"a":1})")) ASSERT_TRUE(client.send({&byte, 1}));
  EXPECT_TRUE(client.read_until("}").ends_with(R"({"a":1})"));
}

TEST_F(HttpTest, LeavingAtEveryByteHurtsNobody) {
  start();
  const std::string request = post("/echo", R"({"a":1})");
  for (std::size_t length = 0; length <= request.size(); ++length) {
    Client client(server_->port());
    client.send(std::string_view(request).substr(0, length));
    client.reset();
  }
  EXPECT_EQ(status_of(kGet), 200);
  EXPECT_TRUE(eventually([&] { return server_->active() == 0; }));
}

TEST_F(HttpTest, SlowHeadsAndBodiesAreCut) {
  start();
  Client silent(server_->port());
  Client head(server_->port());
  head.send("GET /echo HT");
  Client body(server_->port());
  body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{");
  Client dripping(server_->port());
  for (int i = 0; i < 8; ++i) {  // a byte now and then does not extend the time
    dripping.send("G");
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_TRUE(silent.ended());
  EXPECT_EQ(silent.text(), "");
  EXPECT_TRUE(head.ended());
  EXPECT_EQ(head.text().find("HTTP/1.1 408"), 0U);
  EXPECT_TRUE(body.ended());
  EXPECT_EQ(body.text().find("HTTP/1.1 408"), 0U);
  EXPECT_TRUE(dripping.ended());
}

TEST_F(HttpTest, IdleConnectionsAreClosedInSilence) {
  start();
  Client client(server_->port());
  client.send(kGet);
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(count(client.text(), "HTTP/1.1"), 1);
}

TEST_F(HttpTest, HalfCloseIsLegal) {
  start();
  Client client(server_->port());
  client.send(post("/hold", "{}"));
  client.half_close();
  const auto exchange = held(0);
  EXPECT_EQ(client.read_until("102 Processing\r\n\r\n"), "HTTP/1.1 102 Processing\r\n\r\n");
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(gone_, 0);
  exchange->respond({.body = "all of it"});
  EXPECT_TRUE(client.read_to_end().ends_with("all of it"));
}

TEST_F(HttpTest, LeavingBeforeAWholeAnswerIsNoticed) {
  start();
  Client closed(server_->port());
  closed.send(post("/hold", "{}"));
  held(0);
  closed.leave();
  EXPECT_TRUE(eventually([&] { return gone_ == 1; }));
  Client reset(server_->port());
  reset.send(post("/hold", "{}"));
  held(1);
  reset.reset();
  EXPECT_TRUE(eventually([&] { return gone_ == 2; }));
  EXPECT_TRUE(eventually([&] { return server_->active() == 0; }));
  EXPECT_EQ(held(0)->record().status, 499);
}

TEST_F(HttpTest, LeavingAStreamIsNoticed) {
  start();
  Client client(server_->port());
  client.send(post("/stream", "{}"));
  client.read_until("x3");
  client.leave();
  EXPECT_TRUE(eventually([&] { return gone_ == 1; }));
}

TEST_F(HttpTest, SlowReaderIsCutAndOthersGoOn) {
  start();
  Client slow(server_->port(), 4096);
  slow.send(post("/stream", std::string(200, ' ')));  // 20,000 bytes an event
  EXPECT_TRUE(eventually([&] { return gone_ == 1; }));
  EXPECT_TRUE(eventually([&] { return server_->active() == 0; }));
  EXPECT_EQ(status_of(kGet), 200);
}

TEST_F(HttpTest, StalledWriteOfAWholeAnswerIsCut) {
  start();
  Client slow(server_->port(), 4096);
  slow.send(post("/hold", "{}"));
  held(0)->respond({.body = std::string(32 << 20, 'x')});
  EXPECT_TRUE(eventually([&] { return server_->active() == 0; }));
}

TEST_F(HttpTest, SilentStreamsGetComments) {
  start();
  Client client(server_->port());
  client.send(post("/hold", "{}"));
  const auto exchange = held(0);
  exchange->open_stream();
  EXPECT_GE(count(client.read_until(": keep-alive\n\n\r\ne\r\n: keep-alive"), "text/event-stream"), 1);
  exchange->send_event("x");
  exchange->end_stream();
  EXPECT_TRUE(client.read_until("0\r\n\r\n").ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
}

TEST_F(HttpTest, ConnectionsOverTheLimitAreRefused) {
  options_.max_connections = 2;
  options_.head_time = 5s;
  start();
  Client first(server_->port());
  Client second(server_->port());
  first.send(kGet);
  first.read_until("/echo");
  second.send(kGet);
  second.read_until("/echo");
  Client third(server_->port());
  EXPECT_EQ(third.read_to_end().find("HTTP/1.1 503"), 0U);
}

TEST_F(HttpTest, DrainClosesIdleAndFinishesTheRest) {
  options_.idle_time = 10s;
  start();
  Client idle(server_->port());
  idle.send(kGet);
  idle.read_until("/echo");
  Client busy(server_->port());
  busy.send(post("/hold", "{}"));
  const auto exchange = held(0);
  server_->drain();
  EXPECT_TRUE(idle.ended());
  EXPECT_EQ(server_->active(), 1);
  Client late(server_->port());
  late.send(kGet);
  EXPECT_NE(late.read_to_end().find("Connection: close"), std::string::npos) << "answered, so that health can be seen";
  exchange->respond({.body = "done"});
  EXPECT_TRUE(busy.ended());
  EXPECT_TRUE(busy.text().ends_with("done"));
}

TEST_F(HttpTest, EndInterruptsWhatStillRuns) {
  start();
  Client waiting(server_->port());
  waiting.send(post("/hold", "{}"));
  held(0);
  Client streaming(server_->port());
  streaming.send(post("/stream", "{}"));
  streaming.read_until("x3");
  server_.reset();
  EXPECT_TRUE(waiting.ended());
  EXPECT_EQ(waiting.text().find("HTTP/1.1 503"), 0U);
  EXPECT_TRUE(streaming.ended());
  EXPECT_NE(streaming.text().find("\"code\":\"shutting_down\""), std::string::npos);
  EXPECT_EQ(streaming.text().find("[DONE]"), std::string::npos);
  EXPECT_EQ(gone_, 2);
}

TEST_F(HttpTest, PortInUse) {
  start();
  HttpOptions second = options_;
  second.port = server_->port();
  const auto refused = HttpServer::start(second, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Exit::os);
  EXPECT_NE(refused.error().message.find("127.0.0.1:" + std::to_string(second.port)), std::string::npos);
}

TEST_F(HttpTest, ManyClientsAtOnce) {
  options_.head_time = 10s;
  start();
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([this, c, &good] {
      Client client(server_->port());
      for (int i = 0; i < 50; ++i) {
        const std::string body = "[" + std::to_string(c * 1000 + i) + "]";
        client.send(post("/echo", body));
        if (client.read_until(body).ends_with(body)) ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 400);
}

}  // namespace
}  // namespace colibri
