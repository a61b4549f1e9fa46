// SPDX-License-Identifier: Apache-2.0
// The request ring: nothing lost, nothing twice, order kept per producer, full refuses and leaves the value alone.
#include "base/ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/doorbell.h"

namespace colibri {
namespace {

TEST(Ring, RefusesWhenFullAndKeepsTheValue) {
  Ring<std::unique_ptr<int>> ring(4);
  ASSERT_EQ(ring.capacity(), 4U);
  for (int i = 0; i < 4; ++i) {
    auto value = std::make_unique<int>(i);
    ASSERT_EQ(ring.try_push(value), Push::done);
    EXPECT_EQ(value, nullptr);
  }
  auto extra = std::make_unique<int>(99);
  EXPECT_EQ(ring.try_push(extra), Push::full);
  ASSERT_NE(extra, nullptr);
  for (int lap = 0; lap < 10; ++lap) {
    auto value = ring.try_pop();
    ASSERT_TRUE(value.has_value());
    EXPECT_EQ(**value, lap);
    auto next = std::make_unique<int>(lap + 4);
    EXPECT_EQ(ring.try_push(next), Push::done);
  }
}

TEST(Ring, EmptyPopsNothing) {
  Ring<int> ring(1);
  EXPECT_EQ(ring.capacity(), 2U);
  EXPECT_FALSE(ring.try_pop().has_value());
}

TEST(Ring, ManyProducersLoseNothingAndKeepTheirOrder) {
  constexpr int kProducers = 3;
  constexpr int kItems = 20'000;
  Ring<std::pair<int, int>> ring(64);
  std::vector<std::jthread> producers;
  for (int p = 0; p < kProducers; ++p)
    producers.emplace_back([&ring, p] {
      for (int i = 0; i < kItems; ++i) {
        std::pair<int, int> item{p, i};
        while (ring.try_push(item) != Push::done) std::this_thread::yield();
      }
    });
  std::vector<int> next(kProducers, 0);
  for (int received = 0; received < kProducers * kItems;) {
    const auto item = ring.try_pop();
    if (!item) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(item->second, next[static_cast<std::size_t>(item->first)]++);
    ++received;
  }
  EXPECT_FALSE(ring.try_pop().has_value());
}

TEST(Ring, CloseRefusesAndLosesNothing) {
  Ring<int> ring(4);
  int value = 7;
  ASSERT_EQ(ring.try_push(value), Push::done);
  ring.close();
  value = 8;
  EXPECT_EQ(ring.try_push(value), Push::closed);
  EXPECT_FALSE(ring.drained());
  EXPECT_EQ(ring.try_pop(), 7);
  EXPECT_TRUE(ring.drained());
}

TEST(Doorbell, WakesASleeperForEveryItem) {
  constexpr int kItems = 20'000;
  Ring<int> ring(8);
  Doorbell<> bell;
  std::jthread producer([&] {
    for (int i = 0; i < kItems; ++i) {
      int item = i;
      while (ring.try_push(item) != Push::done) std::this_thread::yield();
      bell.ring();
    }
    ring.close();
    bell.ring();
  });
  int received = 0;
  while (!ring.drained()) {
    const auto item = ring.try_pop();
    if (item) {
      ASSERT_EQ(*item, received++);
    } else {
      bell.wait([&] { return ring.ready() || ring.drained(); });
    }
  }
  EXPECT_EQ(received, kItems);
}

}  // namespace
}  // namespace colibri
