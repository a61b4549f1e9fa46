// SPDX-License-Identifier: Apache-2.0
// What an answer looks like on the wire, without a socket.
#include "server/exchange.h"

#include <gtest/gtest.h>

#include "loopback.h"

namespace colibri {
namespace {

struct Wire {
  int wakes = 0;
  Exchange exchange;
  explicit Wire(Exchange::Framing framing = {.request_id = "r1"}) : exchange(framing, [this] { ++wakes; }) {}
};

TEST(Exchange, WholeAnswerOnce) {
  Wire wire;
  wire.exchange.respond({.body = "{}", .headers = {{"X-A", "b"}}});
  wire.exchange.fail({.code = "late"});
  const auto out = wire.exchange.take();
  EXPECT_EQ(
      out.bytes,
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: r1\r\nContent-Length: 2\r\nX-A: b\r\n\r\n"
      "{}");
  EXPECT_TRUE(out.end);
  EXPECT_FALSE(out.close);
  EXPECT_EQ(wire.wakes, 1);
  EXPECT_TRUE(wire.exchange.take().bytes.empty());
}

TEST(Exchange, ErrorsHaveTheEnvelope) {
  Wire wire;
  wire.exchange.fail({.status = 503, .code = "overloaded", .message = "full", .retry_after = 3});
  const std::string bytes = wire.exchange.take().bytes;
  EXPECT_TRUE(bytes.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_NE(bytes.find("\r\nRetry-After: 3\r\n"), std::string::npos);
  EXPECT_TRUE(
      bytes.ends_with(R"({"error":{"message":"full","type":"overloaded_error","param":null,"code":"overloaded"}})"));
  EXPECT_EQ(wire.exchange.record().status, 503);
}

TEST(Exchange, StreamOfEvents) {
  Wire wire;
  wire.exchange.open_stream();
  EXPECT_TRUE(wire.exchange.take().bytes.empty()) << "nothing before the first event";
  wire.exchange.send_event("one");
  EXPECT_EQ(wire.exchange.take().bytes,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-Id: r1\r\nCache-Control: no-cache\r\n"
            "Transfer-Encoding: chunked\r\n\r\nb\r\ndata: one\n\n\r\n");
  wire.exchange.end_stream();
  const auto out = wire.exchange.take();
  EXPECT_EQ(out.bytes, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
  EXPECT_TRUE(out.end);
  EXPECT_FALSE(out.close);
}

TEST(Exchange, FailureInAStreamIsAnEventAndTheEnd) {
  Wire wire;
  wire.exchange.send_event("one");
  wire.exchange.fail({.status = 500, .code = "numerical_error", .message = "m"});
  wire.exchange.end_stream();
  const auto out = wire.exchange.take();
  EXPECT_NE(out.bytes.find("data: {\"error\":"), std::string::npos);
  EXPECT_EQ(out.bytes.find("[DONE]"), std::string::npos);
  EXPECT_EQ(out.bytes.find("\r\n0\r\n"), std::string::npos);
  EXPECT_TRUE(out.end && out.close);
}

TEST(Exchange, SilenceGetsComments) {
  Wire whole;
  whole.exchange.keep_alive();
  EXPECT_TRUE(whole.exchange.take().bytes.empty()) << "no stream was opened";
  Wire stream;
  stream.exchange.open_stream();
  stream.exchange.keep_alive();
  EXPECT_TRUE(stream.exchange.take().bytes.ends_with("\r\n\r\ne\r\n: keep-alive\n\n\r\n"));
  stream.exchange.fail({.code = "x"});
  EXPECT_TRUE(stream.exchange.take().close) << "the head is out: the failure is an event";
}

TEST(Exchange, OldClientsGetNoChunks) {
  Wire wire({.request_id = "r1", .http10 = true, .keep_alive = true});
  wire.exchange.send_event("one");
  wire.exchange.end_stream();
  const auto out = wire.exchange.take();
  EXPECT_EQ(out.bytes.find("chunked"), std::string::npos);
  EXPECT_TRUE(out.bytes.ends_with("\r\n\r\ndata: one\n\ndata: [DONE]\n\n"));
  EXPECT_TRUE(out.close);
}

TEST(Exchange, SlowReaderIsGivenUp) {
  Wire wire;
  int gone = 0;
  wire.exchange.on_gone([&] { ++gone; });
  const std::string event(1000, 'x');
  std::size_t sent = 0;
  while (gone == 0 && sent < 1000) {
    wire.exchange.send_event(event);
    ++sent;
  }
  EXPECT_GE(sent * event.size(), kStreamBytes - 2 * event.size());
  EXPECT_LE(sent * event.size(), kStreamBytes + event.size());
  EXPECT_TRUE(wire.exchange.take().close);
  EXPECT_EQ(wire.exchange.record().status, 499);
  EXPECT_EQ(wire.exchange.record().code, "slow_reader");
  wire.exchange.leave();
  EXPECT_EQ(gone, 1);
}

TEST(Exchange, WhatIsInFlightCounts) {
  Wire wire;
  bool gone = false;
  wire.exchange.on_gone([&] { gone = true; });
  wire.exchange.send_event(std::string(40'000, 'x'));
  const auto held = wire.exchange.take();
  wire.exchange.send_event(std::string(40'000, 'x'));
  EXPECT_TRUE(gone);
}

TEST(Exchange, GoneBeforeAndAfterTheCallback) {
  Wire wire;
  wire.exchange.leave();
  bool gone = false;
  wire.exchange.on_gone([&] { gone = true; });
  EXPECT_TRUE(gone);
  wire.exchange.respond({.body = "x"});
  EXPECT_TRUE(wire.exchange.take().bytes.empty());
}

TEST(Exchange, ProbesOnlyBeforeTheAnswer) {
  Wire wire;
  wire.exchange.probe();
  EXPECT_EQ(wire.exchange.take().bytes, "HTTP/1.1 102 Processing\r\n\r\n");
  wire.exchange.respond({.body = "x"});
  wire.exchange.probe();
  EXPECT_EQ(count(wire.exchange.take().bytes, "HTTP/1.1"), 1);
}

}  // namespace
}  // namespace colibri
