// SPDX-License-Identifier: Apache-2.0
// What a client is told when a request fails, in the envelope that OpenAI clients parse.
// Invariant: a message holds no pointer, path of ours, prompt or key; what it quotes of a request is short and escaped.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace colibri {

struct ApiError {
  int status = 400;       // of HTTP
  std::string code = {};  // for programs
  std::string message = {};
  std::string param = {};  // the field that is wrong; empty where it is none
  int retry_after = 0;     // seconds; 0: says nothing
  std::string allow = {};  // methods, with 405

  /// {"error":{"message","type","param","code"}}; the type follows from the status.
  std::string body() const;
};

/// 400 with code "invalid_value".
ApiError invalid_value(std::string param, std::string message);
/// 400 with code "unsupported_parameter".
ApiError unsupported(std::string param, std::string message);

/// Text of a request as it may stand in a message: quoted, escaped, cut at 64 bytes.
std::string shown_text(std::string_view text);

}  // namespace colibri
