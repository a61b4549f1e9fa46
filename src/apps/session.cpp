// SPDX-License-Identifier: Apache-2.0
// Start order: backend and its threads, then the model's memory, then the engine's.
#include "apps/session.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/file.h"
#include "engine/self_check.h"
#include "forward/place.h"
#include "model/rope.h"
#include "model/weights.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxText = std::size_t{64} << 20;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The weights were held against the budget before they were read; the cache counts too, though the system gives its
/// pages only when they are first written.
Status check_budget(const Session& session) {
  const std::size_t weights = session.loaded->model.weights.bytes();
  const std::size_t need = session.bytes();
  if (need <= session.loaded->ram_budget) return {};
  return Error{Exit::config, "weights of " + bytes_text(static_cast<double>(weights)) + " and a cache of " +
                                 bytes_text(static_cast<double>(need - weights)) + " need more than the " +
                                 bytes_text(static_cast<double>(session.loaded->ram_budget)) +
                                 " that are available (--ram-budget); lower --context or --max-batch"};
}

}  // namespace

Result<Session> Session::open(const std::string& model, const CommonOptions& options, bool need_text, int max_batch) {
  const auto start = Clock::now();
  Session session;
  TRY(backend, make_backend(options.device, options.threads));
  session.backend = std::move(backend);
  if (!session.backend->on_host()) TRY_STATUS(self_check(*session.backend));
  TRY(loaded, LoadedModel::load(model, options.ram_budget, need_text));
  session.loaded = std::make_unique<LoadedModel>(std::move(loaded));
  lengthen(session.loaded->model.spec, options.context);
  TRY_STATUS(place_weights(*session.backend, session.loaded->model).at(model));
  session.backend->adopt_thread();
  TRY(engine,
      Engine::create(session.loaded->model, *session.backend, {.context = options.context, .max_batch = max_batch}));
  session.engine = std::move(engine);
  TRY_STATUS(check_budget(session).at(model));
  session.load_seconds = seconds_since(start);
  return session;
}

Result<GenerateTimings> generate(Session& session, Request request, Answer& answer,
                                 const std::function<void(const Answer::Piece&)>& on_piece,
                                 std::shared_ptr<std::atomic<bool>> cancel) {
  if (!cancel) cancel = std::make_shared<std::atomic<bool>>(false);
  GenerateTimings timings;
  Clock::time_point first;
  std::size_t tokens = 0;
  const auto start = Clock::now();
  request.cancelled = cancel;
  request.sink = [&](const TokenEvent& event) {
    if (tokens++ == 0) {
      first = Clock::now();
      timings.ttft_s = std::chrono::duration<double>(first - start).count();
    }
    timings.decode_s = seconds_since(first);
    const Answer::Piece piece = answer.push(event);
    if (!piece.text.empty() || piece.finish != Finish::none) on_piece(piece);
    if (piece.finish != Finish::none) cancel->store(true, std::memory_order_relaxed);  // a stop string ends it early
  };
  TRY_STATUS(session.engine->check(request));
  CHECK(session.engine->submit(request));
  while (session.engine->step()) {
  }
  if (answer.finish() == Finish::numerical_error)
    return Error{Exit::data, "the model's logits are not finite; its weights or its dtype do not hold"};
  return timings;
}

Request make_request(const Session& session, std::vector<std::int32_t> prompt, const SamplingOptions& options) {
  Request request;
  request.sampling =
      session.loaded->sampling({options.temperature, options.top_p, options.min_p, options.repetition_penalty,
                                options.presence_penalty, options.frequency_penalty, options.top_k, options.seed});
  const int room = session.engine->context() - static_cast<int>(prompt.size());
  request.max_tokens = options.max_tokens.value_or(std::max(room, 1));
  request.prompt = std::move(prompt);
  request.stop_ids = session.loaded->stop_ids(options.ignore_eos);
  return request;
}

Result<std::vector<std::int32_t>> parse_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0 || (next != end && (*next != ',' || next + 1 == end)))
      return Error{Exit::usage, "--ids: write token ids like 1,2,3"};
    ids.push_back(id);
    at = next == end ? end : next + 1;
  }
  if (ids.empty()) return Error{Exit::usage, "--ids: write token ids like 1,2,3"};
  return ids;
}

Result<std::string> read_text(const std::string& path) {
  if (path != "-") return read_file(path, kMaxText);
  std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  if (text.size() > kMaxText) return data_error("standard input: more than 64 MiB");
  return text;
}

void print_json(const Json& value) {
  const std::string text = write_json(value, 1);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace colibri
