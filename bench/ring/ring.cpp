// SPDX-License-Identifier: Apache-2.0
// What handing a request to the engine thread costs: items per second from one thread to another, the age of an item
// when it is taken, and the time from ringing to awake; beside a mutex with a condition variable and boost::lockfree.
// The two threads run on two cores of their own. Usage: bench_ring [--format json]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>

#include <emmintrin.h>
#include <pthread.h>

#include "base/doorbell.h"
#include "base/ring.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kCapacity = 1024;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

struct Ours {
  static constexpr const char* kName = "ring";
  colibri::Ring<std::int64_t> ring{kCapacity};
  colibri::Doorbell<> bell;
  bool push(std::int64_t value) { return ring.try_push(value) == colibri::Push::done; }
  std::optional<std::int64_t> pop() { return ring.try_pop(); }
  void wake() { bell.ring(); }
  void sleep() {
    bell.wait([this] { return ring.ready(); });
  }
};

struct Mutex {
  static constexpr const char* kName = "mutex and condition variable";
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<std::int64_t> items;
  bool push(std::int64_t value) {
    const std::lock_guard lock(mutex);
    if (items.size() == kCapacity) return false;
    items.push_back(value);
    return true;
  }
  std::optional<std::int64_t> pop() {
    const std::lock_guard lock(mutex);
    if (items.empty()) return std::nullopt;
    const std::int64_t value = items.front();
    items.pop_front();
    return value;
  }
  void wake() { filled.notify_one(); }
  void sleep() {
    std::unique_lock lock(mutex);
    filled.wait(lock, [this] { return !items.empty(); });
  }
};

/// Both of boost's have no way to sleep; the doorbell stands in.
template <class Queue>
struct Boost {
  static constexpr const char* kName =
      std::is_same_v<Queue, boost::lockfree::queue<std::int64_t, boost::lockfree::capacity<kCapacity>>>
          ? "boost::lockfree::queue"
          : "boost::lockfree::spsc_queue (one producer)";
  Queue queue;
  colibri::Doorbell<> bell;
  bool push(std::int64_t value) { return queue.push(value); }
  std::optional<std::int64_t> pop() {
    std::int64_t value = 0;
    return queue.pop(value) ? std::optional(value) : std::nullopt;
  }
  void wake() { bell.ring(); }
  void sleep() {
    bell.wait([this] {
      if constexpr (requires { queue.read_available(); }) {
        return queue.read_available() > 0;
      } else {
        return !queue.empty();
      }
    });
  }
};

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Queue>
double items_per_second() {
  constexpr std::int64_t kItems = 4'000'000;
  Queue queue;
  std::jthread producer([&queue] {
    pin(1);
    for (std::int64_t i = 1; i <= kItems; ++i)
      while (!queue.push(i)) _mm_pause();
  });
  pin(0);
  const std::int64_t start = now_ns();
  for (std::int64_t received = 0, sum = 0; received < kItems;) {
    const auto item = queue.pop();
    if (!item) {
      _mm_pause();
      continue;
    }
    sum += *item;
    if (++received == kItems && sum != kItems * (kItems + 1) / 2) std::abort();
  }
  return static_cast<double>(kItems) * 1e9 / static_cast<double>(now_ns() - start);
}

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
};

Percentiles percentiles(std::vector<std::int64_t> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](std::size_t percent) { return static_cast<double>(times[times.size() * percent / 100]) / 1e3; };
  return {at(50), at(99)};
}

/// Microseconds from before the push to after the pop, one item every 20 us; the consumer polls or sleeps between.
template <class Queue>
Percentiles hand_over(bool asleep) {
  constexpr int kItems = 20'000;
  const std::int64_t gap_ns = asleep ? 100'000 : 20'000;
  Queue queue;
  std::jthread producer([&queue, gap_ns] {
    pin(1);
    std::int64_t next = now_ns() + 1'000'000;
    for (int i = 0; i < kItems; ++i, next += gap_ns) {
      while (now_ns() < next) _mm_pause();
      while (!queue.push(now_ns())) _mm_pause();
      queue.wake();
    }
  });
  pin(0);
  std::vector<std::int64_t> times;
  while (times.size() < kItems) {
    const auto sent = queue.pop();
    if (sent) {
      times.push_back(now_ns() - *sent);
    } else if (asleep) {
      queue.sleep();
    } else {
      _mm_pause();
    }
  }
  return percentiles(std::move(times));
}

template <class Queue>
void measure(bool json, bool last) {
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) rates.push_back(items_per_second<Queue>());
  const Percentiles awake = hand_over<Queue>(false);
  const Percentiles asleep = hand_over<Queue>(true);
  const char* format = json ? "  {\"queue\":\"%s\",\"items_per_s\":%.4g,\"hand_over_us\":{\"p50\":%.3g,\"p99\":%.3g},"
                              "\"wake_us\":{\"p50\":%.3g,\"p99\":%.3g}}%s\n"
                            : "%-44s %8.3g %9.3g %9.3g %9.3g %9.3g%s\n";
  std::printf(format, Queue::kName, median(rates), awake.p50, awake.p99, asleep.p50, asleep.p99,
              json && !last ? "," : "");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc == 3 && std::strcmp(argv[1], "--format") == 0 && std::strcmp(argv[2], "json") == 0;
  if (argc > 1 && !json) {
    std::fprintf(stderr, "usage: bench_ring [--format json]\n");
    return 64;
  }
  if (std::thread::hardware_concurrency() < 2) {
    std::fprintf(stderr, "bench_ring needs two cores\n");
    return 69;
  }
  if (json) std::printf("[\n");
  if (!json)
    std::printf("%-44s %8s %9s %9s %9s %9s\n", "one producer, one consumer, 1024 places", "items/s", "p50 us", "p99 us",
                "wake p50", "wake p99");
  measure<Ours>(json, false);
  measure<Mutex>(json, false);
  measure<Boost<boost::lockfree::queue<std::int64_t, boost::lockfree::capacity<kCapacity>>>>(json, false);
  measure<Boost<boost::lockfree::spsc_queue<std::int64_t, boost::lockfree::capacity<kCapacity>>>>(json, true);
  if (json) std::printf("]\n");
  return 0;
}
