// SPDX-License-Identifier: Apache-2.0
// Heads of requests that must be refused, with the status each gets, and the plain ones beside them.
#include "server/framing.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

constexpr const char* kHost = "Host: localhost:8000\r\n";

int status_of(const std::string& head) {
  const auto wrong = check_head(head);
  return wrong ? wrong->status : 200;
}

std::string with(const std::string& lines) { return "POST /v1/x HTTP/1.1\r\n" + std::string(kHost) + lines; }

TEST(RequestLine, Statuses) {
  const std::pair<const char*, int> cases[] = {
      {"GET / HTTP/1.1", 200},
      {"GET /a?b=c HTTP/1.0", 200},
      {"OPTIONS * HTTP/1.1", 200},
      {"GET http://host/a HTTP/1.1", 200},
      {"TRACE / HTTP/1.1", 501},
      {"CONNECT host:1 HTTP/1.1", 501},
      {"get / HTTP/1.1", 501},
      {"GET /", 400},
      {"GET", 400},
      {"", 400},
      {"GET  / HTTP/1.1", 400},
      {"GET a HTTP/1.1", 400},
      {"GET /\x01 HTTP/1.1", 400},
      {"GET /\xc3\xa9 HTTP/1.1", 400},
      {"G(T / HTTP/1.1", 400},
      {"PRI * HTTP/2.0", 505},
      {"GET / HTTP/1.2", 505},
      {"GET / http/1.1", 400},
      {"GET / HTTP/1.10", 400},
  };
  for (const auto& [line, status] : cases) {
    const auto wrong = check_request_line(line);
    EXPECT_EQ(wrong ? wrong->status : 200, status) << line;
  }
  const auto too_long = check_request_line("GET /" + std::string(kMaxTargetBytes, 'a') + " HTTP/1.1");
  ASSERT_TRUE(too_long.has_value());
  EXPECT_EQ(too_long->status, 414);
}

TEST(Head, Statuses) {
  const std::pair<std::string, int> cases[] = {
      {with(""), 200},
      {with("Content-Length: 5\r\n"), 200},
      {with("Transfer-Encoding: chunked\r\n"), 200},
      {with("X: a\tb\r\nY:\r\n"), 200},
      {with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
      {with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400},
      {with("Content-Length: 5\r\nContent-Length: 5\r\n"), 400},
      {with("Content-Length: 5\r\nContent-Length: 6\r\n"), 400},
      {with("Content-Length: 5, 5\r\n"), 400},
      {with("Content-Length: +5\r\n"), 400},
      {with("Content-Length: -1\r\n"), 400},
      {with("Content-Length: 0x5\r\n"), 400},
      {with("Content-Length: \r\n"), 400},
      {with("Content-Length: 18446744073709551616\r\n"), 400},
      {with("Transfer-Encoding: gzip, chunked\r\n"), 400},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {with("X: a\rTransfer-Encoding: chunked\r\n"), 400},
      {with("X: a\nY: b\r\n"), 400},
      {with("X: a\r\n folded\r\n"), 400},
      {with("X: a\r\n\tfolded\r\n"), 400},
      {with("X : a\r\n"), 400},
      {with(": a\r\n"), 400},
      {with("X\r\n"), 400},
      {with(std::string("X: a\0b\r\n", 8)), 400},
      {with("X: a\x7f\r\n"), 400},
      {with("Host: other\r\n"), 400},
      {"GET / HTTP/1.1\r\nHost: x/health?\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x#\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: user@x\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n", 200},
      {"GET / HTTP/1.1\r\nHost:\r\n", 200},
      {"GET / HTTP/1.1\r\n", 400},
      {"GET / HTTP/1.0\r\n", 200},
      {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n", 400},
  };
  for (const auto& [head, status] : cases) EXPECT_EQ(status_of(head), status) << head;
  std::string many;
  for (std::size_t i = 0; i < kMaxHeaders; ++i) many += "X: y\r\n";
  EXPECT_EQ(status_of(with(many)), 431);
}

TEST(JsonContent, Statuses) {
  const auto status = [](const char* type, const char* encoding) {
    const auto wrong = check_json_content({{"content-type", type}, {"content-encoding", encoding}});
    return wrong ? wrong->status : 200;
  };
  EXPECT_EQ(status("application/json", ""), 200);
  EXPECT_EQ(status("Application/JSON; charset=UTF-8", ""), 200);
  EXPECT_EQ(status("application/json;charset=\"utf-8\"", "identity"), 200);
  EXPECT_EQ(status("application/json; charset=utf-16", ""), 415);
  EXPECT_EQ(status("text/plain", ""), 415);
  EXPECT_EQ(status("application/jsonx", ""), 415);
  EXPECT_EQ(status("", ""), 415);
  EXPECT_EQ(status("application/json", "gzip"), 415);
}

TEST(Path, OfTargets) {
  EXPECT_EQ(path_of("/a/b?c=/d"), "/a/b");
  EXPECT_EQ(path_of("http://host:1/a?b"), "/a");
  EXPECT_EQ(path_of("http://host"), "/");
  EXPECT_EQ(path_of("/http://x"), "/http://x");
  EXPECT_EQ(percent_decoded("a%2Fb%20c"), "a/b c");
  EXPECT_EQ(percent_decoded("%4"), std::nullopt);
  EXPECT_EQ(percent_decoded("%zz"), std::nullopt);
}

}  // namespace
}  // namespace colibri
