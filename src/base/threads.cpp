// SPDX-License-Identifier: Apache-2.0
// A region costs one atomic store to open and one addition per thread to close. Nobody waits for a worker that has
// claimed nothing, so a worker that lost its core delays nobody. Idle workers spin for a while, as the next region
// usually follows within microseconds, and then sleep on the epoch.
#include "base/threads.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kSpin{50};
constexpr std::chrono::microseconds kCrowdedSpin{2};

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// Spins until `ready()`; false when `limit` has passed. The clock is read every 32 rounds.
template <class Ready>
bool spin(std::chrono::microseconds limit, Ready ready) {
  Clock::time_point end{};
  for (int round = 0; !ready(); ++round) {
    relax();
    if (round % 32 != 31) continue;
    const Clock::time_point now = Clock::now();
    if (end == Clock::time_point{}) end = now + limit;
    if (now >= end) return false;
  }
  return true;
}

/// Whole cores that the cgroup's quota pays for ("max 100000" or "200000 100000"), at least 1.
std::size_t quota_cores(std::size_t unlimited) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::size_t quota = 0;
  std::size_t period = 0;
  if (!(file >> quota >> period) || period == 0) return unlimited;
  return std::max<std::size_t>(1, quota / period);
}

std::vector<int> first_processor_of_each_core() {
  std::vector<int> cpus;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return cpus;
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (hwloc_topology_load(topology) == 0 && hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
      hwloc_bitmap_and(mine, core->cpuset, allowed);
      if (const int cpu = hwloc_bitmap_first(mine); cpu >= 0) cpus.push_back(cpu);
    }
    hwloc_bitmap_free(mine);
  }
  hwloc_bitmap_free(allowed);
  hwloc_topology_destroy(topology);
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

}  // namespace

std::vector<int> usable_cores() {
  std::vector<int> cpus = first_processor_of_each_core();
  if (cpus.empty()) cpus.push_back(0);
  cpus.resize(std::min(cpus.size(), quota_cores(cpus.size())));
  return cpus;
}

void name_this_thread(const std::string& name) { pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()); }

bool pin_this_thread(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1);
  if (threads == 1) return;
  const std::vector<int> cores = usable_cores();
  crowded_ = cores.size() < static_cast<std::size_t>(threads);
  if (!crowded_) caller_cpu_ = cores[0];
  for (int thread = 1; thread < threads; ++thread) {
    const int cpu = crowded_ ? -1 : cores[static_cast<std::size_t>(thread)];
    workers_.emplace_back([this, thread, cpu] {
      name_this_thread("colibri-cpu-" + std::to_string(thread));
      pin_this_thread(cpu);
      worker_loop(thread);
    });
  }
}

void ThreadPool::pin_caller() const {
  if (caller_cpu_ >= 0) pin_this_thread(caller_cpu_);
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Job& job) {
  job_ = job;
  done_.store(0, std::memory_order_relaxed);
  unclaimed_.store(job.tasks, std::memory_order_release);
  // Sequentially consistent with the sleeper's pair (count, then look at the epoch): one of the two sees the other.
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();
  work(0);
  const auto all_done = [&] { return done_.load(std::memory_order_acquire) == job.tasks; };
  while (!spin(crowded_ ? kCrowdedSpin : kSpin, all_done)) std::this_thread::yield();
}

void ThreadPool::work(int thread) {
  int ran = 0;
  // A claim that comes late, in the next region, is a claim of that region's task: the job is read after it. A thread
  // whose tasks are not counted yet keeps its region open, so they all belong to one.
  for (int left = 0; (left = unclaimed_.fetch_sub(1, std::memory_order_acq_rel)) > 0; ++ran) {
    job_.call(job_.body, job_.tasks - left, thread);
  }
  if (ran > 0) done_.fetch_add(ran, std::memory_order_release);
}

void ThreadPool::worker_loop(int thread) {
  int seen = 0;
  while (true) {
    const auto opened = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!spin(crowded_ ? kCrowdedSpin : kSpin, opened)) {
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      epoch_.wait(seen, std::memory_order_seq_cst);
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (!opened()) continue;
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    work(thread);
  }
}

}  // namespace colibri
