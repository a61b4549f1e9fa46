// SPDX-License-Identifier: Apache-2.0
// JSON values are built whole and written once; their order is that of OpenAI's own answers.
#include "server/openai_response.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "text/utf8.h"

namespace colibri {
namespace {

constexpr double kLowestLogprob = -9999.0;  // stands for minus infinity, as vLLM has it

Json token_json(const Tokenizer& tokenizer, std::int32_t id, float logprob) {
  const std::string bytes = tokenizer.token_bytes(id);
  Json::Array numbers;
  for (const char byte : bytes) numbers.emplace_back(static_cast<int>(static_cast<unsigned char>(byte)));
  std::vector<ByteRange> none;
  const double value = std::isfinite(logprob) ? std::max(static_cast<double>(logprob), kLowestLogprob) : kLowestLogprob;
  return Json::Object{{"token", repair_utf8(bytes, none)}, {"logprob", value}, {"bytes", std::move(numbers)}};
}

Json logprobs_json(Json logprobs) {
  return logprobs.is_null() ? Json() : Json(Json::Object{{"content", std::move(logprobs)}});
}

Json call_json(std::string_view id, std::string_view name, std::string_view arguments) {
  return Json::Object{
      {"id", id}, {"type", "function"}, {"function", Json::Object{{"name", name}, {"arguments", arguments}}}};
}

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json Usage::json() const {
  return Json::Object{{"prompt_tokens", prompt_tokens},
                      {"completion_tokens", completion_tokens},
                      {"total_tokens", static_cast<std::int64_t>(prompt_tokens) + completion_tokens},
                      {"prompt_tokens_details", Json::Object{{"cached_tokens", 0}}},
                      {"completion_tokens_details", Json::Object{{"reasoning_tokens", 0}}}};
}

Json logprob_entry(const Tokenizer& tokenizer, const TokenEvent& event) {
  Json entry = token_json(tokenizer, event.id, event.logprob);
  Json::Array top;
  for (const TokenLogprob& other : event.top) top.push_back(token_json(tokenizer, other.id, other.logprob));
  entry.set("top_logprobs", std::move(top));
  return entry;
}

std::string random_id(std::string_view prefix) {
  constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  thread_local std::mt19937_64 random{(std::uint64_t{std::random_device{}()} << 32) | std::random_device{}()};
  std::uniform_int_distribution<std::size_t> pick(0, letters.size() - 1);
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += letters[pick(random)];
  return id;
}

Json ChatAnswerWriter::choice(int index, const std::string& content, const std::vector<ToolCall>& calls, Json logprobs,
                              const ChoiceEnd& end) const {
  Json message = Json::Object{{"role", "assistant"},
                              {"content", content.empty() && !calls.empty() ? Json() : Json(content)},
                              {"reasoning_content", nullptr}};
  if (!calls.empty()) {
    Json::Array list;
    for (const ToolCall& call : calls) list.push_back(call_json(call.id, call.name, call.arguments));
    message.set("tool_calls", std::move(list));
  }
  return Json::Object{{"index", index},
                      {"message", std::move(message)},
                      {"logprobs", logprobs_json(std::move(logprobs))},
                      {"finish_reason", end.finish_reason},
                      {"stop_reason", text_or_null(end.stop_string)}};
}

Json ChatAnswerWriter::envelope(std::string_view object, Json::Array choices) const {
  return Json::Object{{"id", id_},
                      {"object", object},
                      {"created", created_},
                      {"model", model_},
                      {"system_fingerprint", nullptr},
                      {"choices", std::move(choices)}};
}

std::string ChatAnswerWriter::whole(Json::Array choices, const Usage& usage) const {
  Json answer = envelope("chat.completion", std::move(choices));
  answer.set("usage", usage.json());
  return write_json(answer);
}

Json ChatAnswerWriter::delta(const ToolDelta& step, bool first, std::string_view call_id) {
  Json delta = Json::Object{};
  if (first) delta.set("role", "assistant");
  if (step.call < 0) {
    delta.set("content", step.text);
    return delta;
  }
  if (first) delta.set("content", nullptr);
  Json call = Json::Object{{"index", step.call}};
  if (step.name.empty()) {
    call.set("function", Json::Object{{"arguments", step.text}});
  } else {
    call.set("id", call_id);
    call.set("type", "function");
    call.set("function", Json::Object{{"name", step.name}, {"arguments", step.text}});
  }
  delta.set("tool_calls", Json::Array{std::move(call)});
  return delta;
}

std::string ChatAnswerWriter::chunk(int index, Json delta, Json logprobs, const ChoiceEnd* end,
                                    const Json* usage) const {
  Json choice = Json::Object{{"index", index},
                             {"delta", std::move(delta)},
                             {"logprobs", logprobs_json(std::move(logprobs))},
                             {"finish_reason", end != nullptr ? Json(end->finish_reason) : Json()}};
  if (end != nullptr) choice.set("stop_reason", text_or_null(end->stop_string));
  Json chunk = envelope("chat.completion.chunk", {std::move(choice)});
  if (usage != nullptr) chunk.set("usage", *usage);
  return write_json(chunk);
}

std::string ChatAnswerWriter::usage_chunk(const Usage& usage) const {
  Json chunk = envelope("chat.completion.chunk", {});
  chunk.set("usage", usage.json());
  return write_json(chunk);
}

}  // namespace colibri
