// SPDX-License-Identifier: Apache-2.0
// The body of POST /v1/chat/completions, checked field by field.
// Invariant: a call that parse_chat_call accepts needs no further check but those of the model it is for (context,
// vocabulary). Nothing is cast in silence; what cannot be done is refused, not ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/loaded_model.h"
#include "server/api_error.h"

namespace colibri {

struct ChatCall {
  std::string model;  // empty: not said
  Json messages;      // an array
  Json tools;         // an array, or null: none, or not to be used
  Json variables;     // an object for the template, or null
  SamplingWishes sampling;
  std::vector<std::string> stop;
  std::optional<int> max_tokens;  // empty: what the context leaves
  int n = 1;                      // choices
  int top_logprobs = -1;          // -1: no log probabilities
  bool ignore_eos = false;
  std::vector<std::int32_t> stop_ids;  // beside the model's own
  int min_tokens = 0;
  bool parallel_tool_calls = true;
  bool stream = false;
  bool include_usage = false;     // one more chunk with it
  bool continuous_usage = false;  // in every chunk
};

/// The error, if there is one. `unknown` gets the names of fields that mean nothing here and were ignored.
std::optional<ApiError> parse_chat_call(std::string_view body, ChatCall& call, std::vector<std::string>& unknown);

}  // namespace colibri
