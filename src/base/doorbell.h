// SPDX-License-Identifier: Apache-2.0
// Wakes one sleeper from any number of threads; ringing costs a fence and a load while it is awake.
//
// Invariant: who publishes something and then rings, and who finds nothing published inside wait(), cannot miss each
// other: each writes, passes a full fence and reads what the other writes (Dekker), so at least one of them sees it.
#pragma once

#include <atomic>

#include "base/event.h"

namespace colibri {

/// What the doorbell is made of. Tests put another in its place that tries all orders.
struct MachineBell {
  template <class T>
  using Atomic = std::atomic<T>;
  using Event = colibri::Event;
  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
};

template <class Memory = MachineBell>
class Doorbell {
 public:
  /// Any thread, after it published what the sleeper waits for.
  void ring() {
    Memory::fence();
    if (asleep_.load(std::memory_order_relaxed) && asleep_.exchange(false, std::memory_order_relaxed)) event_.signal();
  }

  /// The sleeper: returns once rung, or at once where ready() holds. May return without reason.
  template <class Ready>
  void wait(Ready ready) {
    asleep_.store(true, std::memory_order_relaxed);
    Memory::fence();
    if (!ready()) event_.wait();
    asleep_.store(false, std::memory_order_relaxed);
  }

 private:
  typename Memory::template Atomic<bool> asleep_{false};
  typename Memory::Event event_;
};

}  // namespace colibri
