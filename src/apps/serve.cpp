// SPDX-License-Identifier: Apache-2.0
// The server's life: listen, load, answer, drain.
// Invariant: requests end before engines, engines before the service, the service before the models.
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "apps/options.h"
#include "apps/session.h"
#include "apps/version.h"
#include "base/log.h"
#include "base/threads.h"
#include "server/service.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kDrainTime = std::chrono::seconds(30);

/// SIGTERM and SIGINT. Before arm() one ends the process: nothing is promised to anybody yet. After it, the first is
/// what wait() waits for, and the second ends the process at once.
class StopSignals {
 public:
  /// Before any other thread is started, so that none of them takes the signals.
  StopSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this] { run(); });
  }
  ~StopSignals() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    pthread_kill(thread_.native_handle(), SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread): it waits for this
    thread_.join();
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void arm() {
    const std::lock_guard lock(mutex_);
    armed_ = true;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return stopping_; });
  }

 private:
  void run() {
    name_this_thread("signals");
    for (;;) {
      int signal = 0;
      sigwait(&signals_, &signal);
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      if (!armed_ || stopping_) std::_Exit(static_cast<int>(Exit::ok));
      stopping_ = true;
      came_.notify_one();
    }
  }

  sigset_t signals_{};
  std::mutex mutex_;
  std::condition_variable came_;
  bool armed_ = false, stopping_ = false, ended_ = false;  // under mutex_
  std::thread thread_;
};

struct NamedModel {
  std::string name;   // that clients use
  std::string model;  // as the command line has it
};

/// NAME=MODEL, or a directory's last part, or ORG/NAME as it is.
NamedModel named_model(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals != std::string::npos && equals > 0 && argument.find('/') > equals)
    return {argument.substr(0, equals), argument.substr(equals + 1)};
  std::error_code ignored;
  if (!std::filesystem::is_directory(argument, ignored)) return {argument, argument};
  const auto path = (std::filesystem::absolute(argument, ignored) / "").lexically_normal();  // ends with a slash
  return {path.parent_path().filename().string(), argument};
}

Result<std::vector<NamedModel>> named_models(const ServeOptions& options) {
  std::vector<NamedModel> models;
  for (const std::string& argument : options.models) {
    NamedModel next = named_model(argument);
    for (const NamedModel& other : models)
      if (other.name == next.name)
        return Error{Exit::usage, "MODEL: two models would be called " + next.name + "; name one with NAME=MODEL"};
    models.push_back(std::move(next));
  }
  if (options.served_model_name) {
    if (models.size() != 1)
      return Error{Exit::usage, "--served-model-name: only with one model; name several with NAME=MODEL"};
    models[0].name = *options.served_model_name;
  }
  return models;
}

void log_dispatch_latency(const Engine& engine) {
  const DispatchLatency& latency = engine.dispatch_latency();
  if (latency.tokens == 0) return;
  char line[96];
  std::snprintf(line, sizeof line, "[colibri] MoE dispatch latency: %.2fms @ %d tokens", latency.seconds * 1e3,
                latency.tokens);
  log_line(LogLevel::info, line);
}

}  // namespace

Status serve_command(const ServeOptions& options) {
  const auto start = Clock::now();
  TRY(models, named_models(options));
  StopSignals signals;
  std::vector<Session> sessions;
  Service service(version());
  std::vector<std::jthread> engines;
  TRY(server, HttpServer::start({.host = options.host, .port = options.port}, service.routes()));

  std::vector<ServedModel> served;
  std::string names;
  CommonOptions left = options.common;  // with the memory that the models before leave
  for (const NamedModel& model : models) {
    TRY(session, Session::open(model.model, left, true, options.max_batch));
    left.ram_budget = std::max(session.loaded->ram_budget - session.bytes(), std::size_t{1});
    served.push_back({model.name, session.loaded.get(), session.engine.get()});
    names += (names.empty() ? "" : ", ") + model.name;
    sessions.push_back(std::move(session));
  }
  engines.reserve(sessions.size());
  for (const Session& session : sessions) {
    engines.emplace_back([engine = session.engine.get()](const std::stop_token& stop) {
      name_this_thread("engine");
      engine->run(stop);
    });
  }
  service.open(std::move(served));
  signals.arm();
  std::fprintf(stderr, "colibri: serving %s on http://%s (ready in %.1f s)\n", names.c_str(), server->address().c_str(),
               std::chrono::duration<double>(Clock::now() - start).count());

  signals.wait();
  log_event(LogLevel::info, "draining", {{"requests", server->active()}});
  service.drain();
  server->drain();
  const auto limit = Clock::now() + kDrainTime;
  while (server->active() > 0 && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  server.reset();
  engines.clear();
  for (const Session& session : sessions) log_dispatch_latency(*session.engine);
  log_event(LogLevel::info, "stopped");
  return {};
}

}  // namespace colibri
