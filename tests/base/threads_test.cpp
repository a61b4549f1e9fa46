// SPDX-License-Identifier: Apache-2.0
// The pool runs every task once, makes its writes visible, and loses no wake-up; run under ThreadSanitizer too.
#include "base/threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <array>
#include <chrono>
#include <numeric>
#include <set>
#include <vector>

namespace colibri {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceAndShowsItsWrites) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const int tasks : {0, 1, 2, 3, 64, 1000}) {
      std::vector<int> runs(static_cast<std::size_t>(tasks), 0);  // plain ints: a race would be seen by TSan
      std::vector<int> thread_of(static_cast<std::size_t>(tasks), -1);
      pool.parallel(tasks, [&](int task, int thread) {
        ++runs[static_cast<std::size_t>(task)];
        thread_of[static_cast<std::size_t>(task)] = thread;
      });
      for (const int count : runs) ASSERT_EQ(count, 1);
      for (const int thread : thread_of) ASSERT_TRUE(thread >= 0 && thread < threads);
    }
  }
}

TEST(ThreadPool, TwentyThousandRegionsInARow) {
  ThreadPool pool(3);
  std::array<std::int64_t, 5> sums{};
  constexpr int kRegions = 20000;
  for (int region = 0; region < kRegions; ++region) {
    const int tasks = 1 + region % 5;
    pool.parallel(tasks, [&](int task, int) { sums[static_cast<std::size_t>(task)] += region; });
  }
  std::array<std::int64_t, 5> expected{};
  for (int region = 0; region < kRegions; ++region) {
    for (int task = 0; task < 1 + region % 5; ++task) expected[static_cast<std::size_t>(task)] += region;
  }
  EXPECT_EQ(sums, expected);
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool(2);
  for (int region = 0; region < 200; ++region) {
    // Around the spinning time, so that some regions open just as the worker goes to sleep.
    std::this_thread::sleep_for(std::chrono::microseconds(20 + region));
    std::atomic<int> arrived{0};
    // Each task waits for the other one: this ends only if the worker came.
    pool.parallel(2, [&](int, int) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
  }
}

TEST(ThreadPool, StopsWhileWorkersSpinOrSleep) {
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(3);
    if (i % 2 == 0) pool.parallel(3, [](int, int) {});
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ThreadPool, NamesItsWorkers) {
  ThreadPool pool(2);
  std::array<std::string, 2> names;
  std::atomic<int> arrived{0};
  pool.parallel(2, [&](int, int thread) {
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    names[static_cast<std::size_t>(thread)] = name.data();
  });
  EXPECT_EQ(names[1], "colibri-cpu-1");
}

TEST(UsableCores, AreDistinctAndNotEmpty) {
  const std::vector<int> cores = usable_cores();
  EXPECT_FALSE(cores.empty());
  EXPECT_EQ(std::set<int>(cores.begin(), cores.end()).size(), cores.size());
  for (const int cpu : cores) EXPECT_GE(cpu, 0);
}

TEST(PinThisThread, RefusesProcessorsThatAreNotThere) {
  EXPECT_FALSE(pin_this_thread(-1));
  EXPECT_FALSE(pin_this_thread(1 << 20));
}

}  // namespace
}  // namespace colibri
