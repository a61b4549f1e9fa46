// SPDX-License-Identifier: Apache-2.0
// What is streamed and what is kept for a whole answer are the same deltas: their texts cannot differ.
#include "server/chat_job.h"

#include <chrono>

namespace colibri {
namespace {

std::int64_t unix_seconds() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

constexpr int kRetrySeconds = 1;

}  // namespace

ChatJob::Choice::Choice(const Tokenizer& tokenizer, const ChatCall& call) : answer(&tokenizer, call.stop) {
  if (!call.tools.is_null()) parser.emplace(call.parallel_tool_calls ? std::numeric_limits<int>::max() : 1);
}

ChatJob::ChatJob(const ServedModel& model, ChatCall call, std::shared_ptr<Exchange> exchange, Workers& workers)
    : model_(model),
      call_(std::move(call)),
      exchange_(std::move(exchange)),
      workers_(workers),
      writer_(model.name, unix_seconds()) {}

void ChatJob::start() {
  if (auto error = submit()) exchange_->fail(*error);
}

/// The prompt and the limits, the same for all choices.
std::optional<ApiError> ChatJob::make_request(Request& request) const {
  const LoadedModel& loaded = *model_.loaded;
  if (!loaded.chat_template)
    return ApiError{.status = 400, .code = "no_chat_template", .message = "this model has no chat template"};
  auto prompt = loaded.chat_prompt({.messages = &call_.messages,
                                    .tools = call_.tools.is_null() ? nullptr : &call_.tools,
                                    .variables = call_.variables.is_null() ? nullptr : &call_.variables});
  if (!prompt.ok()) {
    const std::string& why = prompt.error().message;
    if (why.find("template_limit") != std::string::npos)
      return ApiError{.status = 500, .code = "template_limit", .message = why};
    return invalid_value("messages", why);
  }
  const std::size_t length = prompt->ids.size();
  const int room = model_.engine->room(length);
  const std::string context = std::to_string(model_.engine->context());
  if (room < 1)
    return ApiError{.code = "context_length_exceeded",
                    .message = "the messages have " + std::to_string(length) + " tokens; the context of " + context +
                               " holds fewer",
                    .param = "messages"};
  if (call_.max_tokens && *call_.max_tokens > room)
    return ApiError{.code = "context_length_exceeded",
                    .message = "the messages have " + std::to_string(length) + " tokens; with max_tokens " +
                               std::to_string(*call_.max_tokens) + " they exceed the context of " + context,
                    .param = "max_tokens"};
  request.prompt = std::move(prompt->ids);
  request.sampling = loaded.sampling(call_.sampling);
  request.sampling.logprobs = call_.top_logprobs;
  request.max_tokens = call_.max_tokens.value_or(room);
  request.stop_ids = loaded.stop_ids(call_.ignore_eos);
  request.stop_ids.insert(request.stop_ids.end(), call_.stop_ids.begin(), call_.stop_ids.end());
  request.min_tokens = call_.min_tokens;
  if (const Status sound = model_.engine->check(request); !sound.ok())
    return ApiError{.code = "invalid_value", .message = sound.error().message};
  return std::nullopt;
}

std::optional<ApiError> ChatJob::submit() {
  Request request;
  if (auto error = make_request(request)) return error;
  prompt_tokens_ = static_cast<int>(request.prompt.size());
  exchange_->count_tokens(prompt_tokens_, 0);
  choices_.reserve(static_cast<std::size_t>(call_.n));
  std::vector<std::shared_ptr<std::atomic<bool>>> cancelled;
  for (int i = 0; i < call_.n; ++i) {
    choices_.emplace_back(*model_.loaded->tokenizer, call_);
    cancelled.push_back(choices_.back().cancelled);
  }
  open_ = choices_.size();
  if (call_.stream) exchange_->open_stream();
  const auto cancel_all = [cancelled, engine = model_.engine] {
    for (const auto& flag : cancelled) flag->store(true, std::memory_order_relaxed);
    engine->wake();
  };
  exchange_->on_gone(cancel_all);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Request one = request;
    one.sampling.seed += i;
    one.cancelled = cancelled[i];
    one.sink = [job = shared_from_this(), i](TokenEvent event) { job->deliver(i, std::move(event)); };
    if (model_.engine->submit(one)) continue;
    exchange_->fail(
        {.status = 503, .code = "overloaded", .message = "the queue is full", .retry_after = kRetrySeconds});
    cancel_all();
    break;
  }
  return std::nullopt;
}

/// On the engine's thread.
void ChatJob::deliver(std::size_t index, TokenEvent event) {
  {
    const std::lock_guard lock(mutex_);
    mailbox_.emplace_back(index, std::move(event));
    if (std::exchange(reading_, true)) return;
  }
  workers_.post([job = shared_from_this()] { job->read_mailbox(); });
}

void ChatJob::read_mailbox() {
  std::vector<std::pair<std::size_t, TokenEvent>> events;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      events.clear();
      events.swap(mailbox_);
      if (events.empty()) {
        reading_ = false;
        return;
      }
    }
    for (const auto& [index, event] : events) read_event(index, event);
  }
}

void ChatJob::read_event(std::size_t index, const TokenEvent& event) {
  Choice& choice = choices_[index];
  if (choice.ended) return;
  if (event.finish == Finish::numerical_error)
    return give_up({.status = 500, .code = "numerical_error", .message = "the model's logits are not finite"});
  if (event.finish == Finish::cancelled)  // nobody listens, or the engine ends
    return give_up(
        {.status = 503, .code = "shutting_down", .message = "the server stops", .retry_after = kRetrySeconds});
  ++choice.generated;
  exchange_->count_tokens(prompt_tokens_, usage().completion_tokens);
  if (call_.top_logprobs >= 0 && event.finish != Finish::stop)
    choice.logprobs.push_back(logprob_entry(*model_.loaded->tokenizer, event));
  Answer::Piece piece = choice.answer.push(event);
  if (!choice.parser) {
    if (!piece.text.empty()) add(index, {.text = std::move(piece.text)});
  } else {
    for (const ToolDelta& delta : choice.parser->push(piece.text)) add(index, delta);
    if (piece.finish != Finish::none)
      for (const ToolDelta& delta : choice.parser->finish()) add(index, delta);
    if (piece.finish == Finish::none && choice.parser->done()) piece.finish = Finish::stop;
  }
  if (piece.finish != Finish::none) end_choice(index, piece.finish);
}

void ChatJob::add(std::size_t index, const ToolDelta& delta) {
  Choice& choice = choices_[index];
  if (!delta.name.empty()) choice.calls.push_back({.id = random_id("call_"), .name = delta.name, .arguments = {}});
  if (call_.stream) {
    const std::string_view call_id = delta.name.empty() ? std::string_view() : choice.calls.back().id;
    send_chunk(index, ChatAnswerWriter::delta(delta, !std::exchange(choice.begun, true), call_id), nullptr);
  } else if (delta.call < 0) {
    choice.content += delta.text;
  } else {
    choice.calls[static_cast<std::size_t>(delta.call)].arguments += delta.text;
  }
}

void ChatJob::end_choice(std::size_t index, Finish why) {
  Choice& choice = choices_[index];
  choice.ended = true;
  choice.cancelled->store(true, std::memory_order_relaxed);  // after a stop string the engine still runs
  choice.end = {.finish_reason = why == Finish::length   ? "length"
                                 : !choice.calls.empty() ? "tool_calls"
                                                         : "stop",
                .stop_string = choice.answer.stop_string()};
  if (call_.stream) {
    if (!choice.begun) add(index, {});  // an answer without text: the role alone
    send_chunk(index, Json::Object{}, &choice.end);
  }
  if (--open_ == 0) end_answer();
}

void ChatJob::end_answer() {
  if (call_.stream) {
    if (call_.include_usage) exchange_->send_event(writer_.usage_chunk(usage()));
    exchange_->end_stream();
    return;
  }
  Json::Array list;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    list.push_back(
        writer_.choice(static_cast<int>(i), choice.content, choice.calls, take_logprobs(choice), choice.end));
  }
  exchange_->respond({.body = writer_.whole(std::move(list), usage())});
}

void ChatJob::give_up(const ApiError& error) {
  for (Choice& choice : choices_) {
    choice.ended = true;
    choice.cancelled->store(true, std::memory_order_relaxed);
  }
  exchange_->fail(error);
}

Json ChatJob::take_logprobs(Choice& choice) const {
  return call_.top_logprobs < 0 ? Json() : Json(std::exchange(choice.logprobs, {}));
}

Usage ChatJob::usage() const {
  Usage usage{.prompt_tokens = prompt_tokens_};
  for (const Choice& choice : choices_) usage.completion_tokens += choice.generated;
  return usage;
}

void ChatJob::send_chunk(std::size_t index, Json delta, const ChoiceEnd* end) {
  const Json usage_json = call_.continuous_usage ? usage().json() : Json();
  const bool with_usage = call_.continuous_usage || call_.include_usage;
  exchange_->send_event(writer_.chunk(static_cast<int>(index), std::move(delta), take_logprobs(choices_[index]), end,
                                      with_usage ? &usage_json : nullptr));
}

}  // namespace colibri
