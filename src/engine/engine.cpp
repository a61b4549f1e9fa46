// SPDX-License-Identifier: Apache-2.0
// The loop of a token: what is waiting is admitted while its whole length fits, every running sequence gets its rows,
// and sinks hear of a token only once its sequence has it.
#include "engine/engine.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "engine/plan.h"

namespace colibri {

struct Engine::Sequence {
  Request request;
  std::vector<std::int32_t> tokens;  // prompt and generated
  int computed = 0;                  // of tokens, those in the cache
  KvSequence kv;
  TokenCounts counts;

  int known() const { return static_cast<int>(tokens.size()); }
  int generated() const { return known() - static_cast<int>(request.prompt.size()); }
};

Result<std::unique_ptr<Engine>> Engine::create(const Model& model, Backend& backend, const EngineOptions& wanted) {
  EngineOptions options = wanted;
  if (options.context == 0) options.context = model.spec.context;
  if (options.context < 1 || options.context > model.spec.context) {
    return Error{Exit::config, "--context: " + std::to_string(options.context) + " is outside 1.." +
                                   std::to_string(model.spec.context) + ", the model's context"};
  }
  if (options.max_batch < 1) return Error{Exit::config, "--max-batch: must be at least 1"};
  options.max_chunk = std::min(options.max_chunk, options.context);
  const int max_rows = options.max_batch + options.max_chunk;
  TRY(pool, KvPool::create(model.spec,
                           {.sequences = options.max_batch, .context = options.context, .max_chunk = options.max_chunk},
                           backend));
  TRY(scratch, Scratch::create(model.spec, max_rows, options.max_batch, backend));
  TRY(logits, backend.allocate(static_cast<std::size_t>(options.max_batch) *
                                   static_cast<std::size_t>(model.spec.vocab) * sizeof(float),
                               "logits"));
  TRY_STATUS(backend.prepare(
      model.spec,
      {.rows = max_rows, .sequences = options.max_batch, .logit_rows = options.max_batch, .context = options.context}));
  capture_decode(backend, model, pool, scratch,
                 {reinterpret_cast<float*>(logits.data()), options.max_batch, model.spec.vocab});
  return std::unique_ptr<Engine>(
      new Engine(model, backend, options, std::move(pool), std::move(scratch), std::move(logits)));
}

Engine::Engine(const Model& model, Backend& backend, const EngineOptions& options, KvPool pool, Scratch scratch,
               Buffer logits)
    : model_(model),
      backend_(backend),
      options_(options),
      pool_(std::move(pool)),
      scratch_(std::move(scratch)),
      logits_(std::move(logits)),
      ring_(static_cast<std::size_t>(options.queue)) {
  publish_counters();
}

Engine::~Engine() = default;

int Engine::room(std::size_t prompt_tokens) const {
  const auto context = static_cast<std::size_t>(options_.context);
  return prompt_tokens > context ? 0 : std::max(1, static_cast<int>(context - prompt_tokens));
}

Status Engine::check(const Request& request) const {
  if (request.prompt.empty()) return data_error("prompt: has no tokens");
  for (const std::int32_t id : request.prompt)
    if (id < 0 || id >= model_.spec.vocab)
      return data_error("prompt: token " + std::to_string(id) + " is outside 0.." +
                        std::to_string(model_.spec.vocab - 1));
  if (request.max_tokens < 1) return data_error("max_tokens: must be at least 1");
  if (request.max_tokens > room(request.prompt.size()))
    return data_error("prompt: " + std::to_string(request.prompt.size()) + " tokens and max_tokens " +
                      std::to_string(request.max_tokens) + " exceed the context of " +
                      std::to_string(options_.context));
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens)
    return data_error("min_tokens: " + std::to_string(request.min_tokens) + " is outside 0.." +
                      std::to_string(request.max_tokens) + ", max_tokens");
  const auto unknown = [this](std::int32_t id) { return id < 0 || id >= model_.spec.vocab; };
  for (const std::int32_t id : request.stop_ids)
    if (unknown(id)) return data_error("stop_token_ids: there is no token " + std::to_string(id));
  for (const TokenBias& token : request.sampling.logit_bias)
    if (unknown(token.id)) return data_error("logit_bias: there is no token " + std::to_string(token.id));
  return request.sampling.validate();
}

bool Engine::submit(Request& request) {
  auto owned = std::make_unique<Request>(std::move(request));
  stats_.waiting.fetch_add(1, std::memory_order_relaxed);
  if (ring_.try_push(owned) != Push::done) {
    stats_.waiting.fetch_sub(1, std::memory_order_relaxed);
    request = std::move(*owned);
    return false;
  }
  wake();
  return true;
}

void Engine::wake() { bell_.ring(); }

void Engine::admit() {
  while (!waiting_.empty() && static_cast<int>(running_.size()) < options_.max_batch) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request = std::move(*waiting_.front());
    waiting_.pop_front();
    stats_.waiting.fetch_sub(1, std::memory_order_relaxed);
    sequence->tokens = sequence->request.prompt;
    sequence->tokens.reserve(sequence->tokens.size() + static_cast<std::size_t>(sequence->request.max_tokens));
    sequence->counts.add_prompt(sequence->request.prompt);
    running_.push_back(std::move(sequence));
  }
}

void Engine::finish(std::size_t index, TokenEvent event) {
  pool_.release(running_[index]->kv);
  const std::unique_ptr<Sequence> done = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  publish_counters();
  done->request.sink(std::move(event));
}

void Engine::drop_cancelled() {
  const auto is_cancelled = [](const Request& request) {
    return request.cancelled && request.cancelled->load(std::memory_order_relaxed);
  };
  for (std::size_t i = running_.size(); i-- > 0;)
    if (is_cancelled(running_[i]->request)) finish(i, {.finish = Finish::cancelled});
  std::erase_if(waiting_, [&](const std::unique_ptr<Request>& request) {
    if (!is_cancelled(*request)) return false;
    stats_.waiting.fetch_sub(1, std::memory_order_relaxed);
    request->sink({.finish = Finish::cancelled});
    return true;
  });
}

void Engine::take_in() {
  while (auto request = ring_.try_pop()) waiting_.push_back(std::move(*request));
}

void Engine::publish_counters() {
  stats_.running.store(static_cast<int>(running_.size()), std::memory_order_relaxed);
  int free = 0;
  for (int group = 0; group < pool_.groups(); ++group) free += pool_.free_blocks(group);
  stats_.kv_free.store(free, std::memory_order_relaxed);
}

bool Engine::step() {
  take_in();
  drop_cancelled();
  admit();
  publish_counters();
  if (running_.empty()) return false;

  std::vector<Progress> progress;
  for (const auto& sequence : running_) progress.push_back({sequence->known(), sequence->computed});
  const std::vector<PlannedRows> plan =
      plan_step(progress, options_.max_batch + options_.max_chunk, options_.max_chunk);

  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> logit_rows;
  std::vector<SequenceRows> sequences;
  std::vector<std::vector<std::span<const std::int32_t>>> tables(plan.size());
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Sequence& sequence = *running_[static_cast<std::size_t>(plan[i].sequence)];
    const int end = sequence.computed + plan[i].rows;
    pool_.release_behind_window(sequence.kv, sequence.computed);
    CHECK(pool_.reserve(sequence.kv, end));  // the pool holds max_batch whole contexts
    sequence.kv.spans(tables[i]);
    sequences.push_back({static_cast<int>(tokens.size()), plan[i].rows, sequence.computed, tables[i]});
    for (int position = sequence.computed; position < end; ++position) {
      tokens.push_back(sequence.tokens[static_cast<std::size_t>(position)]);
      positions.push_back(position);
    }
    if (end == sequence.known()) logit_rows.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
  }

  const Rows logits(reinterpret_cast<float*>(logits_.data()), static_cast<int>(logit_rows.size()), model_.spec.vocab);
  forward(backend_, model_, {tokens, positions, sequences, logit_rows}, pool_, scratch_, logits);
  const Rows scores = backend_.finish(logits);
  counters_ = backend_.counters();
  const auto rows = static_cast<int>(tokens.size());
  if (rows >= dispatch_.tokens) dispatch_ = {counters_.route_seconds, rows};
  stats_.steps.fetch_add(1, std::memory_order_relaxed);

  // Sample and commit everything before anybody hears of it; finished sequences leave from the back.
  struct Outcome {
    std::size_t index;
    TokenEvent event;
  };
  std::vector<Outcome> outcomes;
  int row = 0;
  for (const PlannedRows& planned : plan) {
    const auto index = static_cast<std::size_t>(planned.sequence);
    Sequence& sequence = *running_[index];
    const int prompt_rows =
        std::min(sequence.computed + planned.rows, static_cast<int>(sequence.request.prompt.size())) -
        sequence.computed;
    if (prompt_rows > 0)
      stats_.prompt_tokens.fetch_add(static_cast<std::uint64_t>(prompt_rows), std::memory_order_relaxed);
    sequence.computed += planned.rows;
    if (sequence.computed < sequence.known()) continue;
    const std::span<float> own(scores.row(row++), static_cast<std::size_t>(model_.spec.vocab));
    const Request& request = sequence.request;
    const bool may_stop = sequence.known() - static_cast<int>(request.prompt.size()) >= request.min_tokens;
    auto chosen = sample(own, request.sampling, sequence.counts, static_cast<std::uint64_t>(sequence.known()),
                         may_stop ? std::span<const std::int32_t>() : request.stop_ids);
    if (!chosen) {
      outcomes.push_back({index, {.finish = Finish::numerical_error}});
      continue;
    }
    sequence.tokens.push_back(chosen->id);
    sequence.counts.add_generated(chosen->id);
    stats_.generated_tokens.fetch_add(1, std::memory_order_relaxed);
    const auto& stops = sequence.request.stop_ids;
    const Finish why = std::find(stops.begin(), stops.end(), chosen->id) != stops.end() ? Finish::stop
                       : sequence.generated() >= sequence.request.max_tokens            ? Finish::length
                                                                                        : Finish::none;
    outcomes.push_back({index, {chosen->id, chosen->logprob, std::move(chosen->top), why}});
  }
  for (std::size_t i = outcomes.size(); i-- > 0;) {
    Outcome& outcome = outcomes[i];
    if (outcome.event.finish == Finish::none) {
      running_[outcome.index]->request.sink(std::move(outcome.event));
    } else {
      finish(outcome.index, std::move(outcome.event));
    }
  }
  return true;
}

void Engine::run(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] { wake(); });
  backend_.adopt_thread();
  while (!stop.stop_requested()) {
    if (!step()) bell_.wait([&] { return ring_.ready() || stop.stop_requested(); });
  }
  ring_.close();
  for (take_in(); !ring_.drained(); take_in()) std::this_thread::yield();  // a push is under way
  while (!running_.empty() || !waiting_.empty()) {
    for (std::size_t i = running_.size(); i-- > 0;) finish(i, {.finish = Finish::cancelled});
    admit();
  }
}

}  // namespace colibri
