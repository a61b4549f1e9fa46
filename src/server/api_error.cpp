// SPDX-License-Identifier: Apache-2.0
// The types are OpenAI's names for classes of status codes.
#include "server/api_error.h"

#include <algorithm>

namespace colibri {
namespace {

constexpr std::size_t kShownBytes = 64;

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 && status != 501 && status != 505 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string ApiError::body() const {
  return write_json(Json::Object{{"error", Json::Object{{"message", message},
                                                        {"type", type_of(status)},
                                                        {"param", param.empty() ? Json() : Json(param)},
                                                        {"code", code}}}});
}

ApiError invalid_value(std::string param, std::string message) {
  return {.status = 400, .code = "invalid_value", .message = std::move(message), .param = std::move(param)};
}

ApiError unsupported(std::string param, std::string message) {
  return {.status = 400, .code = "unsupported_parameter", .message = std::move(message), .param = std::move(param)};
}

std::string shown_text(std::string_view text) {
  std::size_t length = std::min(text.size(), kShownBytes);
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  return write_json(text.substr(0, length)) + (length < text.size() ? "..." : "");
}

}  // namespace colibri
