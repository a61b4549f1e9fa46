// SPDX-License-Identifier: Apache-2.0
// The probe sums 64-bit words in independent chains, so that nothing but the loads can be the limit.
#include "base/machine.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <thread>
#include <vector>

#include "base/memory.h"

namespace colibri {
namespace {

constexpr int kRounds = 7;  // the best counts: the machine may be shared

std::uint64_t read_all(const std::uint64_t* words, std::size_t count) {
  std::array<std::uint64_t, 32> sums{};
  for (std::size_t i = 0; i + sums.size() <= count; i += sums.size())
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += words[i + j];
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

Result<double> measure_read_bandwidth(int threads, std::size_t bytes) {
  TRY(buffer, Buffer::allocate(bytes, "bandwidth probe"));
  auto* words = reinterpret_cast<std::uint64_t*>(buffer.data());
  const std::size_t part = bytes / sizeof(std::uint64_t) / static_cast<std::size_t>(threads);
  std::atomic<std::uint64_t> sink{0};
  std::atomic<int> arrived{0};
  std::vector<double> seconds(static_cast<std::size_t>(threads) * kRounds);
  const auto work = [&](int thread) {
    std::uint64_t* const own = words + part * static_cast<std::size_t>(thread);
    for (std::size_t i = 0; i < part; i += 512) own[i] = i;  // a write to each page: it is ours and resident
    for (int round = 0; round < kRounds; ++round) {
      arrived.fetch_add(1);
      while (arrived.load() < threads * (round + 1)) std::this_thread::yield();
      const auto start = std::chrono::steady_clock::now();
      sink.fetch_add(read_all(own, part), std::memory_order_relaxed);
      seconds[static_cast<std::size_t>(thread * kRounds + round)] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int thread = 1; thread < threads; ++thread) workers.emplace_back(work, thread);
    work(0);
  }
  double best = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    double slowest = 0.0;
    for (int thread = 0; thread < threads; ++thread)
      slowest = std::max(slowest, seconds[static_cast<std::size_t>(thread * kRounds + round)]);
    if (slowest > 0.0) best = std::max(best, static_cast<double>(part * sizeof(std::uint64_t)) * threads / slowest);
  }
  return best;
}

}  // namespace colibri
