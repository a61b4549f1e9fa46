// SPDX-License-Identifier: Apache-2.0
// `colibri run`: one prompt, one answer, streamed as text or reported as one JSON document.
#include <cstdio>
#include <utility>

#include "apps/session.h"
#include "base/memory.h"

namespace colibri {
namespace {

const char* finish_name(Finish finish) { return finish == Finish::length ? "length" : "stop"; }

/// What was given, read before the model: a mistake in it costs nothing. One of the three is filled.
struct Input {
  std::vector<std::int32_t> ids;
  Json conversation;  // messages, tools, add_generation_prompt and any other template variable
  std::string text;   // of --raw
};

Result<Json> read_conversation(const std::string& path) {
  TRY(text, read_text(path));
  TRY(file, parse_json(text).at(path));
  const Json* messages = file.find("messages");
  if (messages == nullptr || !messages->is_array()) return data_error(path + ": messages: must be an array");
  const Json* generate = file.find("add_generation_prompt");
  if (generate != nullptr && !generate->is_bool())
    return data_error(path + ": add_generation_prompt: must be true or false");
  return std::move(file);
}

/// From whichever of --prompt, --messages and --ids was given.
Result<Input> read_input(const RunOptions& options) {
  Input input;
  if (options.ids) {
    TRY(ids, parse_ids(*options.ids));
    input.ids = std::move(ids);
    return input;
  }
  if (options.messages) {
    TRY(conversation, read_conversation(*options.messages));
    input.conversation = std::move(conversation);
    return input;
  }
  input.text = *options.prompt;
  if (input.text == "-") {
    TRY(text, read_text("-"));
    input.text = std::move(text);
  }
  if (options.raw) return input;
  Json messages = Json::Array{};
  if (options.system) messages.as_array().push_back(Json::Object{{"role", "system"}, {"content", *options.system}});
  messages.as_array().push_back(Json::Object{{"role", "user"}, {"content", std::exchange(input.text, {})}});
  input.conversation.set("messages", std::move(messages));
  return input;
}

Result<std::vector<std::int32_t>> prompt_ids(Input input, const LoadedModel& loaded) {
  if (!input.ids.empty()) return std::move(input.ids);
  if (input.conversation.is_null()) return loaded.raw_prompt(input.text);
  const Json& file = input.conversation;
  const Json* tools = file.find("tools");
  const Json* generate = file.find("add_generation_prompt");
  TRY(prompt, loaded.chat_prompt({.messages = file.find("messages"),
                                  .tools = tools != nullptr && tools->is_null() ? nullptr : tools,
                                  .variables = &file,
                                  .add_generation_prompt = generate == nullptr || generate->as_bool()}));
  return std::move(prompt.ids);
}

std::int64_t resident_experts(const ModelWeights& weights) {
  std::size_t count = 0;
  for (const LayerWeights& layer : weights.layers)
    if (const auto* moe = std::get_if<MoeWeights>(&layer.ffn)) count += moe->records.size();
  return static_cast<std::int64_t>(count);
}

Json report(const Session& session, const Answer& answer, const std::vector<std::int32_t>& prompt,
            const GenerateTimings& timings, bool has_text) {
  Json::Array prompt_json(prompt.begin(), prompt.end());
  Json::Array ids(answer.ids().begin(), answer.ids().end());
  Json::Array logprobs;
  for (const float logprob : answer.logprobs()) logprobs.emplace_back(static_cast<double>(logprob));
  const auto rate = [](std::size_t tokens, double seconds) {
    return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  const std::size_t decoded = answer.ids().empty() ? 0 : answer.ids().size() - 1;
  const LoadedModel& loaded = *session.loaded;
  return Json::Object{
      {"prompt_ids", std::move(prompt_json)},
      {"ids", std::move(ids)},
      {"text", has_text ? Json(answer.text()) : Json()},
      {"finish_reason", finish_name(answer.finish())},
      {"logprobs", std::move(logprobs)},
      {"timings", Json::Object{{"load_s", session.load_seconds},
                               {"ttft_ms", timings.ttft_s * 1e3},
                               {"prefill_tokens_per_s", rate(prompt.size(), timings.ttft_s)},
                               {"decode_tokens_per_s", rate(decoded, timings.decode_s)}}},
      {"memory", Json::Object{{"budget", std::uint64_t{loaded.ram_budget}},
                              {"engine_peak", std::uint64_t{session.engine->bytes() + loaded.model.weights.bytes()}},
                              {"rss_peak", std::uint64_t{peak_resident_bytes()}},
                              {"experts_resident", resident_experts(loaded.model.weights)},
                              {"expert_misses", 0}}}};
}

}  // namespace

Status run_command(const RunOptions& options) {
  const bool need_text = !options.ids;
  TRY(input, read_input(options));
  TRY(session, Session::open(options.model, options.common, need_text));
  TRY(prompt, prompt_ids(std::move(input), *session.loaded));
  Request request = make_request(session, prompt, options.sampling);
  if (options.json) request.sampling.logprobs = 0;
  const Tokenizer* tokenizer = session.loaded->tokenizer ? &*session.loaded->tokenizer : nullptr;
  if (tokenizer == nullptr && !options.sampling.stop.empty())
    return Error{Exit::usage, "--stop: " + session.loaded->no_tokenizer};
  Answer answer(tokenizer, options.sampling.stop);
  const auto cancel = std::make_shared<std::atomic<bool>>(false);
  const auto print = [&](const Answer::Piece& piece) {
    if (options.json) return;
    std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
    if (std::fflush(stdout) != 0) cancel->store(true);  // nobody reads any more
  };
  TRY(timings, generate(session, std::move(request), answer, print, cancel));
  if (options.json) {
    print_json(report(session, answer, prompt, timings, tokenizer != nullptr));
  } else if (tokenizer != nullptr) {
    std::fputc('\n', stdout);
  } else {
    for (std::size_t i = 0; i < answer.ids().size(); ++i) std::printf("%s%d", i == 0 ? "" : ",", answer.ids()[i]);
    std::fputc('\n', stdout);
  }
  std::fflush(stdout);
  const DispatchLatency& dispatch = session.engine->dispatch_latency();
  const std::size_t decoded = answer.ids().empty() ? 0 : answer.ids().size() - 1;
  std::fprintf(stderr,
               "[colibri] loaded in %.2f s; first token after %.1f ms; %zu prompt + %zu answer tokens; %.0f tokens/s\n",
               session.load_seconds, timings.ttft_s * 1e3, prompt.size(), answer.ids().size(),
               timings.decode_s > 0.0 ? static_cast<double>(decoded) / timings.decode_s : 0.0);
  std::fprintf(stderr, "[colibri] MoE dispatch latency: %.2fms @ %d tokens\n", dispatch.seconds * 1e3, dispatch.tokens);
  return {};
}

}  // namespace colibri
