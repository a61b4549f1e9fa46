// SPDX-License-Identifier: Apache-2.0
// Small answers are made on the io thread; a chat goes to a worker before its body is looked at.
#include "server/service.h"

#include <algorithm>
#include <exception>

#include "base/log.h"

namespace colibri {
namespace {

constexpr int kWorkers = 2;
constexpr double kStalledMs = 10'000;  // with requests running and no step: not healthy
constexpr std::size_t kMaxUnknownLogged = 64;
constexpr int kRetrySeconds = 5;

std::int64_t unix_seconds() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

ApiError no_model(const std::string& name) {
  return {.status = 404,
          .code = "model_not_found",
          .message = "the model " + shown_text(name) + " is not served here; GET /v1/models lists those that are",
          .param = "model"};
}

}  // namespace

Service::Service(std::string version) : version_(std::move(version)), created_(unix_seconds()), workers_(kWorkers) {}

std::vector<Route> Service::routes() {
  using Ptr = std::shared_ptr<Exchange>;
  return {
      {"POST", "/v1/chat/completions",
       [this](HttpRequest request, Ptr exchange) { chat(std::move(request), std::move(exchange)); }},
      {"GET", "/v1/models", [this](const HttpRequest&, const Ptr& exchange) { list_models(*exchange); }},
      {"GET", "/v1/models/*",
       [this](const HttpRequest& request, const Ptr& exchange) { show_model(request.tail, *exchange); }},
      {"GET", "/health", [this](const HttpRequest&, const Ptr& exchange) { health(*exchange); }},
      {"GET", "/livez",
       [](const HttpRequest&, const Ptr& exchange) { exchange->respond({.body = R"({"status":"ok"})"}); }},
      {"GET", "/version",
       [this](const HttpRequest&, const Ptr& exchange) {
         exchange->respond({.body = write_json(Json::Object{{"version", version_}})});
       }},
  };
}

void Service::open(std::vector<ServedModel> models) {
  models_ = std::move(models);
  {
    const std::lock_guard lock(mutex_);
    progress_.assign(models_.size(), {});
  }
  State loading = State::loading;
  state_.compare_exchange_strong(loading, State::ready);
}

std::optional<ApiError> Service::unavailable() const {
  switch (state_.load()) {
    case State::loading:
      return ApiError{
          .status = 503, .code = "loading", .message = "the model is being loaded", .retry_after = kRetrySeconds};
    case State::draining:
      return ApiError{.status = 503, .code = "draining", .message = "the server stops", .retry_after = kRetrySeconds};
    case State::ready:
      break;
  }
  return std::nullopt;
}

const ServedModel* Service::find(const std::string& name) const {
  if (name.empty() && models_.size() == 1) return &models_[0];  // a call that names no model
  const auto found =
      std::find_if(models_.begin(), models_.end(), [&](const ServedModel& model) { return model.name == name; });
  return found == models_.end() ? nullptr : &*found;
}

void Service::chat(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  if (auto error = unavailable()) return exchange->fail(*error);
  workers_.post([this, request = std::move(request), exchange = std::move(exchange)] {
    try {
      start_chat(request, exchange);
    } catch (const std::exception& error) {  // the wall: memory, most likely
      log_event(LogLevel::error, "exception", {{"rid", request.id}, {"what", error.what()}});
      exchange->fail({.status = 500, .code = "internal_error", .message = "internal error"});
    }
  });
}

void Service::start_chat(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
  ChatCall call;
  std::vector<std::string> unknown;
  const auto wrong = parse_chat_call(request.body, call, unknown);
  if (!unknown.empty()) log_unknown(unknown);
  if (wrong) return exchange->fail(*wrong);
  const ServedModel* model = find(call.model);
  if (model == nullptr) return exchange->fail(no_model(call.model));
  std::make_shared<ChatJob>(*model, std::move(call), exchange, workers_)->start();
}

Json Service::model_json(const ServedModel& model) const {
  return Json::Object{{"id", model.name},
                      {"object", "model"},
                      {"created", created_},
                      {"owned_by", "colibri"},
                      {"max_model_len", model.engine->context()}};
}

void Service::list_models(Exchange& exchange) const {
  Json::Array list;
  if (state_ != State::loading)
    for (const ServedModel& model : models_) list.push_back(model_json(model));
  exchange.respond({.body = write_json(Json::Object{{"object", "list"}, {"data", std::move(list)}})});
}

void Service::show_model(const std::string& name, Exchange& exchange) const {
  const ServedModel* model = state_ == State::loading ? nullptr : find(name);
  if (model == nullptr) return exchange.fail(no_model(name));
  exchange.respond({.body = write_json(model_json(*model))});
}

/// For how long an engine with work has been seen without a step, the longest of all.
double Service::stalled_ms() {
  const auto now = std::chrono::steady_clock::now();
  double longest = 0;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < progress_.size(); ++i) {
    const EngineStats& stats = models_[i].engine->stats();
    const Progress look{.steps = stats.steps.load(), .idle = stats.running.load() == 0, .since = now};
    Progress& last = progress_[i];
    if (look.idle || last.idle || look.steps != last.steps) {
      last = look;
    } else {
      longest = std::max(longest, std::chrono::duration<double, std::milli>(now - last.since).count());
    }
  }
  return longest;
}

void Service::health(Exchange& exchange) {
  const State state = state_;
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t kv_free = 0;
  double stalled = 0;
  if (state != State::loading) {
    stalled = stalled_ms();
    for (const ServedModel& model : models_) {
      running += model.engine->stats().running.load();
      waiting += model.engine->stats().waiting.load();
      kv_free += model.engine->stats().kv_free.load();
    }
  }
  const bool stuck = state == State::ready && stalled > kStalledMs;
  exchange.respond({.status = state == State::ready && !stuck ? 200 : 503,
                    .body = write_json(Json::Object{{"state", stuck                     ? "stalled"
                                                              : state == State::ready   ? "ready"
                                                              : state == State::loading ? "loading"
                                                                                        : "draining"},
                                                    {"running", running},
                                                    {"waiting", waiting},
                                                    {"kv_free", kv_free},
                                                    {"last_step_age_ms", stalled},
                                                    {"log_degraded", log_dropped() > 0}})});
}

void Service::log_unknown(const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) {
    const std::string shown = shown_text(name);
    if (known_.size() < kMaxUnknownLogged && known_.insert(shown).second)
      log_event(LogLevel::warning, "unknown_field", {{"field", shown}});
  }
}

}  // namespace colibri
