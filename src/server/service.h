// SPDX-License-Identifier: Apache-2.0
// What the server offers: the routes, the models behind them, and the state that health checks see.
// Invariant: the models are set once, before the state becomes ready; handlers never block the thread they run on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "server/chat_job.h"
#include "server/http.h"
#include "server/workers.h"

namespace colibri {

class Service {
 public:
  explicit Service(std::string version);

  /// Handlers refer to this service.
  std::vector<Route> routes();

  /// The models are loaded: answer requests. The engines run on threads of the caller's; they end before the service.
  void open(std::vector<ServedModel> models);
  /// New requests are refused from here on.
  void drain() { state_ = State::draining; }

 private:
  enum class State { loading, ready, draining };

  /// The last look at an engine's counters.
  struct Progress {
    std::uint64_t steps = 0;
    bool idle = true;
    std::chrono::steady_clock::time_point since;
  };

  void chat(HttpRequest request, std::shared_ptr<Exchange> exchange);
  void start_chat(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange);
  void health(Exchange& exchange);
  void list_models(Exchange& exchange) const;
  void show_model(const std::string& name, Exchange& exchange) const;
  std::optional<ApiError> unavailable() const;
  const ServedModel* find(const std::string& name) const;
  Json model_json(const ServedModel& model) const;
  void log_unknown(const std::vector<std::string>& names);
  double stalled_ms();

  const std::string version_;
  const std::int64_t created_;
  std::atomic<State> state_{State::loading};
  std::vector<ServedModel> models_;  // constant once the state is ready
  std::mutex mutex_;
  std::vector<Progress> progress_;            // under mutex_, one per model
  std::set<std::string, std::less<>> known_;  // under mutex_: unknown fields that were logged
  Workers workers_;                           // last: its tasks use the rest
};

}  // namespace colibri
