// SPDX-License-Identifier: Apache-2.0
// One chat completion from its checked call to its last byte: prompt, n requests to the engine, text, chunks.
//
// Invariant: the engine's thread only leaves events in the mailbox; one worker at a time reads them, in their order. A
// job lives as long as the engine has one of its requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/answer.h"
#include "engine/engine.h"
#include "engine/loaded_model.h"
#include "server/exchange.h"
#include "server/openai_request.h"
#include "server/openai_response.h"
#include "server/tool_calls.h"
#include "server/workers.h"

namespace colibri {

/// A model that requests can name. What the pointers lead to outlives the service.
struct ServedModel {
  std::string name;
  const LoadedModel* loaded = nullptr;
  Engine* engine = nullptr;
};

class ChatJob : public std::enable_shared_from_this<ChatJob> {
 public:
  ChatJob(const ServedModel& model, ChatCall call, std::shared_ptr<Exchange> exchange, Workers& workers);

  /// On a worker: renders, tokenizes and submits, or answers with the error.
  void start();

 private:
  /// One of the n answers.
  struct Choice {
    Choice(const Tokenizer& tokenizer, const ChatCall& call);

    Answer answer;
    std::optional<ToolCallParser> parser;  // where there are tools to call
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
    bool begun = false;  // a chunk has said the role
    bool ended = false;
    Json::Array logprobs;  // of tokens whose text is not sent yet; of all, where nothing is streamed
    std::string content;   // where nothing is streamed
    std::vector<ToolCall> calls;
    ChoiceEnd end;
    int generated = 0;
  };

  std::optional<ApiError> submit();
  std::optional<ApiError> make_request(Request& request) const;
  void deliver(std::size_t index, TokenEvent event);
  void read_mailbox();
  void read_event(std::size_t index, const TokenEvent& event);
  void add(std::size_t index, const ToolDelta& delta);
  void end_choice(std::size_t index, Finish why);
  void end_answer();
  void give_up(const ApiError& error);
  Json take_logprobs(Choice& choice) const;
  Usage usage() const;
  void send_chunk(std::size_t index, Json delta, const ChoiceEnd* end);

  const ServedModel& model_;
  const ChatCall call_;
  const std::shared_ptr<Exchange> exchange_;
  Workers& workers_;
  const ChatAnswerWriter writer_;
  std::vector<Choice> choices_;
  std::size_t open_ = 0;  // choices that have not ended
  int prompt_tokens_ = 0;

  std::mutex mutex_;
  std::vector<std::pair<std::size_t, TokenEvent>> mailbox_;  // under mutex_
  bool reading_ = false;                                     // under mutex_: a worker has been told
};

}  // namespace colibri
