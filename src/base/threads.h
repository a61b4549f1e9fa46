// SPDX-License-Identifier: Apache-2.0
// Threads for the numeric work: a pool that hands out the tasks of one region at a time, and the cores to run it on.
// Invariant: when parallel() returns, every task has run once and its writes are visible to the caller. Which thread
// ran which task is unspecified, so results must not depend on it.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace colibri {

/// One logical processor of each physical core that this process may use, ascending; fewer where the cgroup's CPU quota
/// is smaller. Never empty.
std::vector<int> usable_cores();

/// Names the calling thread for debuggers and top (15 characters are kept).
void name_this_thread(const std::string& name);

/// Keeps the calling thread on one logical processor. False where the system refuses.
bool pin_this_thread(int cpu);

class ThreadPool {
 public:
  /// `threads` >= 1, the caller included. Where there is a usable core for each, the workers are pinned, away from the
  /// first one, which is left to the caller.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Keeps the calling thread on the core that the pinned workers leave to it; nothing where they are not pinned.
  /// Threads that it starts later inherit this.
  void pin_caller() const;

  /// Runs f(task, thread) for every task in [0, tasks), thread in [0, size()); the caller is thread 0 and works too.
  /// One region at a time, started by one thread at a time; f must not throw nor call parallel().
  template <class F>
  void parallel(int tasks, F&& f) {
    if (tasks <= 1 || workers_.empty()) {
      for (int task = 0; task < tasks; ++task) f(task, 0);
      return;
    }
    using Body = std::remove_reference_t<F>;
    run({[](const void* body, int task, int thread) { (*static_cast<const Body*>(body))(task, thread); }, &f, tasks});
  }

 private:
  struct Job {
    void (*call)(const void* body, int task, int thread) = nullptr;
    const void* body = nullptr;
    int tasks = 0;
  };

  void run(const Job& job);
  void work(int thread);
  void worker_loop(int thread);

  // A job is read only by who has claimed one of its tasks, and is replaced only when all of them are done.
  Job job_;
  int caller_cpu_ = -1;   // -1: workers are not pinned
  bool crowded_ = false;  // fewer cores than threads: waiting must not keep a core from who has the work
  alignas(64) std::atomic<int> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int> unclaimed_{0};  // tasks not yet handed out; below 0 between regions
  alignas(64) std::atomic<int> done_{0};       // tasks that have run
  alignas(64) std::vector<std::thread> workers_;
};

}  // namespace colibri
