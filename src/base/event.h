// SPDX-License-Identifier: Apache-2.0
// A flag in the kernel that one thread sleeps on (eventfd).
// Invariant: a signal before or during wait() ends it; any number of signals end one wait().
#pragma once

namespace colibri {

class Event {
 public:
  /// CHECKs that the system gives a descriptor: one is made for each engine at start.
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Any thread.
  void signal();
  /// Sleeps until there is a signal, and takes it.
  void wait();

 private:
  int descriptor_ = -1;
};

}  // namespace colibri
