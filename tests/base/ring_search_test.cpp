// SPDX-License-Identifier: Apache-2.0
// The real ring and doorbell in every order of their steps and with stores held back: nothing lost, nothing twice,
// order kept, capacity held, nothing read unpublished, no wake-up lost, and an end after close().
// tests/base/ring_mutants.py weakens each order in turn and wants this test to fail.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "base/doorbell.h"
#include "base/interleave.h"
#include "base/ring.h"

namespace colibri {
namespace {

using interleave::Plain;
using interleave::World;
using TestRing = Ring<Plain, interleave::Memory>;
using TestBell = Doorbell<interleave::Memory>;

struct Scenario {
  std::vector<int> items;  // of each producer
  std::size_t first = 0;   // position
  bool close = false;      // by a fiber of its own, at any moment; else by the producer that ends last
};

struct Shared {
  std::unique_ptr<TestRing> ring;
  std::unique_ptr<TestBell> bell;
  int producing = 0;  // producers that have not ended
  int pushing = 0;    // that are inside try_push
  int popped = 0;
  bool closing = false;
  std::vector<std::vector<int>> sent;      // by producer
  std::vector<std::vector<int>> received;  // likewise
  std::string error;                       // a refusal without reason

  /// At most so many positions have been claimed.
  int claimed() const {
    int count = pushing;
    for (const auto& items : sent) count += static_cast<int>(items.size());
    return count;
  }
  void close() {
    closing = true;
    ring->close();
    bell->ring();
  }
};

World::Outcome search(const Scenario& scenario) {
  World world;  // outlives what is made in it
  Shared shared;
  const auto setup = [&](World&) {
    const std::size_t producers = scenario.items.size();
    shared.ring = std::make_unique<TestRing>(2, scenario.first);
    shared.bell = std::make_unique<TestBell>();
    shared.producing = static_cast<int>(producers);
    shared.pushing = shared.popped = 0;
    shared.closing = false;
    shared.error.clear();
    shared.sent.assign(producers, {});
    shared.received.assign(producers, {});
    std::vector<std::function<void()>> fibers;
    fibers.emplace_back([&shared] {
      for (int taken = 0;;) {
        World::now().know({taken});
        auto item = shared.ring->try_pop();
        if (item) {
          shared.received[static_cast<std::size_t>(item->get() / 100)].push_back(item->get());
          ++taken;
          ++shared.popped;
        } else if (shared.ring->drained()) {
          return;
        } else {
          shared.bell->wait([&] { return shared.ring->ready() || shared.ring->drained(); });
        }
      }
    });
    for (std::size_t p = 0; p < producers; ++p) {
      fibers.emplace_back([&shared, &scenario, p] {
        for (int i = 0; i < scenario.items[p]; ++i) {
          World::now().know({i, static_cast<int>(shared.sent[p].size())});
          const int value = static_cast<int>(p) * 100 + i;
          Plain item(value);
          const int popped = World::now().settled(0) ? shared.popped : 0;  // by the first fiber
          ++shared.pushing;
          const Push result = shared.ring->try_push(item);
          --shared.pushing;
          if (result == Push::closed && !shared.closing) shared.error = "closed before close()";
          if (result == Push::full && shared.claimed() - popped < 2) shared.error = "refused though there was room";
          if (result == Push::closed) break;
          if (result == Push::full) continue;
          shared.sent[p].push_back(value);
          shared.bell->ring();
        }
        if (--shared.producing > 0 || scenario.close) return;
        shared.close();
      });
    }
    if (scenario.close) fibers.emplace_back([&shared] { shared.close(); });
    return fibers;
  };
  const auto verdict = [&]() -> std::string {
    if (shared.received != shared.sent) return "what was received is not what was sent, in order";
    return shared.error;
  };
  return world.search(setup, verdict, 20'000'000);
}

void expect_right(const Scenario& scenario) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers do not follow fibers";
#endif
  const World::Outcome outcome = search(scenario);
  EXPECT_EQ(outcome.error, "");
  std::printf("%llu states, %llu executions\n", static_cast<unsigned long long>(outcome.states),
              static_cast<unsigned long long>(outcome.executions));
}

TEST(RingSearch, ClosedAtAnyMoment) { expect_right({.items = {2}, .close = true}); }
TEST(RingSearch, TwoProducers) { expect_right({.items = {1, 1}}); }
TEST(RingSearch, PositionsWrap) { expect_right({.items = {3}, .first = (std::size_t{1} << 63) - 2}); }

}  // namespace
}  // namespace colibri
