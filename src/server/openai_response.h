// SPDX-License-Identifier: Apache-2.0
// Answers in the form that OpenAI's clients parse: whole ones, and the chunks of streams.
// Invariant: the same id, time and model in all chunks of an answer; every number is finite.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "server/tool_calls.h"
#include "text/tokenizer.h"

namespace colibri {

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;

  Json json() const;
};

/// One token of "logprobs": {"content": [...]}.
Json logprob_entry(const Tokenizer& tokenizer, const TokenEvent& event);

/// Letters and digits after a prefix, never twice the same.
std::string random_id(std::string_view prefix);

/// A tool call as a whole answer has it.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;
};

struct ChoiceEnd {
  std::string_view finish_reason;     // "stop", "length" or "tool_calls"
  std::string_view stop_string = {};  // what ended it, if a stop string did
};

class ChatAnswerWriter {
 public:
  ChatAnswerWriter(std::string model, std::int64_t created)
      : id_(random_id("chatcmpl-")), model_(std::move(model)), created_(created) {}

  Json choice(int index, const std::string& content, const std::vector<ToolCall>& calls, Json logprobs,
              const ChoiceEnd& end) const;
  std::string whole(Json::Array choices, const Usage& usage) const;

  /// The delta of one step. `first`: the choice's first, which also says the role. `call_id` is for the step that
  /// begins a call.
  static Json delta(const ToolDelta& step, bool first, std::string_view call_id);
  /// `usage` is null, or left out where the client did not ask for it.
  std::string chunk(int index, Json delta, Json logprobs, const ChoiceEnd* end, const Json* usage) const;
  std::string usage_chunk(const Usage& usage) const;

 private:
  Json envelope(std::string_view object, Json::Array choices) const;

  const std::string id_;
  const std::string model_;
  const std::int64_t created_;
};

}  // namespace colibri
