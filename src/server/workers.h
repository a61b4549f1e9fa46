// SPDX-License-Identifier: Apache-2.0
// A few threads for what must block neither the sockets nor the engine: templates, tokenizing, writing JSON.
// Invariant: a task that was posted runs, also during shut down; tasks do not throw.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace colibri {

class Workers {
 public:
  explicit Workers(int threads);
  /// Runs what was posted, then ends.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void post(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace colibri
