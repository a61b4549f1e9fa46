// SPDX-License-Identifier: Apache-2.0
// RFC 9110 and 9112, without what they allow for the sake of old peers: bare LF, folded lines, lists of equal lengths.
#include "server/framing.h"

#include <algorithm>

namespace colibri {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

ApiError bad_framing(std::string message) {
  return {.status = 400, .code = "bad_framing", .message = std::move(message)};
}

bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_alnum(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// host[:port], host may be a bracketed IPv6 address. An empty one is legal.
bool is_host(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_alnum(c) || std::string_view(".-_:[]").find(c) != std::string_view::npos;
  });
}

}  // namespace

std::optional<ApiError> check_request_line(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !is_token(line.substr(0, first)))
    return bad_framing("the request line is not 'METHOD TARGET HTTP/1.1'");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (version.size() != 8 || !version.starts_with("HTTP/") || !is_digit(version[5]) || version[6] != '.' ||
      !is_digit(version[7]))
    return bad_framing("the request line is not 'METHOD TARGET HTTP/1.1'");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return ApiError{.status = 505, .code = "http_version", .message = "this server speaks HTTP/1.1"};
  constexpr std::string_view known[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
  if (std::find(std::begin(known), std::end(known), method) == std::end(known))
    return ApiError{.status = 501, .code = "method_not_implemented", .message = "this server does not know the method"};
  if (target.size() > kMaxTargetBytes)
    return ApiError{.status = 414, .code = "target_too_long", .message = "the request target exceeds 8192 bytes"};
  if (!std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7f; }))
    return bad_framing("the request target has a character that is not allowed");
  if (target[0] != '/' && target != "*" && target.find("://") == std::string_view::npos)
    return bad_framing("the request target is not a path");
  return std::nullopt;
}

std::optional<ApiError> check_head(std::string_view head) {
  bool first = true;
  std::size_t fields = 0, hosts = 0, lengths = 0, encodings = 0;
  bool http10 = false;
  while (!head.empty()) {
    const std::size_t end = head.find('\n');
    if (end == std::string_view::npos || end == 0 || head[end - 1] != '\r')
      return bad_framing("a header line does not end with CRLF");
    const std::string_view line = head.substr(0, end - 1);
    head.remove_prefix(end + 1);
    if (line.find('\r') != std::string_view::npos) return bad_framing("a header line holds a bare CR");
    if (std::exchange(first, false)) {
      if (auto wrong = check_request_line(line)) return wrong;
      http10 = line.ends_with("HTTP/1.0");
      continue;
    }
    if (++fields > kMaxHeaders)
      return ApiError{.status = 431, .code = "headers_too_large", .message = "more than 100 header lines"};
    if (line.empty() || line[0] == ' ' || line[0] == '\t') return bad_framing("a header line is folded");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return bad_framing("a header line has no valid name before its colon");
    const std::string name = lower(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (!std::all_of(value.begin(), value.end(),
                     [](char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); }))
      return bad_framing("a header value has a control character");
    if (name == "host") {
      if (++hosts > 1 || !is_host(value)) return ApiError{.status = 400, .code = "bad_host", .message = "bad Host"};
    } else if (name == "content-length") {
      if (++lengths > 1 || value.empty() || value.size() > 19 || !std::all_of(value.begin(), value.end(), is_digit))
        return bad_framing("Content-Length is not one decimal number");
    } else if (name == "transfer-encoding") {
      if (++encodings > 1 || http10 || lower(value) != "chunked")
        return bad_framing("the only Transfer-Encoding is chunked");
    }
  }
  if (lengths > 0 && encodings > 0) return bad_framing("Content-Length and Transfer-Encoding together");
  if (hosts == 0 && !http10) return ApiError{.status = 400, .code = "bad_host", .message = "HTTP/1.1 wants a Host"};
  return std::nullopt;
}

std::optional<ApiError> check_json_content(const Headers& headers) {
  if (const std::string encoding = lower(header(headers, "content-encoding"));
      !encoding.empty() && encoding != "identity")
    return ApiError{
        .status = 415, .code = "unsupported_encoding", .message = "Content-Encoding: send the body as it is"};
  const std::string type = lower(header(headers, "content-type"));
  const std::size_t semicolon = type.find(';');
  if (trimmed(std::string_view(type).substr(0, semicolon)) != "application/json")
    return ApiError{
        .status = 415, .code = "unsupported_media_type", .message = "Content-Type must be application/json"};
  if (const std::size_t at = type.find("charset="); at != std::string::npos) {
    std::string charset = type.substr(at + 8);
    std::erase(charset, '"');
    if (!trimmed(charset).starts_with("utf-8"))
      return ApiError{.status = 415, .code = "unsupported_media_type", .message = "the charset must be utf-8"};
  }
  return std::nullopt;
}

std::string_view header(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::string_view path_of(std::string_view target) {
  if (!target.starts_with('/')) {
    if (const std::size_t scheme = target.find("://"); scheme != std::string_view::npos) {
      const std::size_t slash = target.find('/', scheme + 3);
      target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    }
  }
  return target.substr(0, target.find('?'));
}

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) return std::nullopt;
    out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return out;
}

}  // namespace colibri
