// SPDX-License-Identifier: Apache-2.0
// Runs a few fibers over shared atomics in every possible order and reports what goes wrong: a full search, for headers
// that take their atomics as a template parameter.
//
// Memory is that of total store order with release and acquire tracked beside it: a store waits in its thread's buffer
// until the search lets it out (read-modify-writes and fences empty the buffer first), and plain data is checked for
// races by vector clocks that only release stores and acquire loads carry along, so that an order that x86 forgives is
// found missing here. From a state seen before the search goes on no further; a state is memory, buffers and clocks,
// and of each fiber the values that it has read since it last said what it knows (World::know).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include <ucontext.h>

#include "base/check.h"

namespace colibri::interleave {

inline constexpr int kMaxFibers = 4;

using Clock = std::array<int, kMaxFibers>;

inline void join(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

/// One execution and the search over all.
class World {
 public:
  struct Outcome {
    std::uint64_t states = 0;      // distinct
    std::uint64_t executions = 0;  // begun
    std::string error;             // of the first bad execution; empty: there is none
  };

  /// Makes the shared objects and the fibers' bodies; called anew for each execution.
  using Setup = std::function<std::vector<std::function<void()>>(World&)>;
  /// Looks at the end of an execution: what is wrong, or "".
  using Verdict = std::function<std::string()>;

  Outcome search(const Setup& setup, const Verdict& verdict, std::uint64_t max_executions);

  /// The world whose search runs on this thread.
  static World& now() {
    CHECK(current_ != nullptr);
    return *current_;
  }

  // What atomics, events and data call.

  int new_location() {
    memory_.emplace_back();
    return static_cast<int>(memory_.size()) - 1;
  }
  void initialise(int location, std::uint64_t value) { memory_[static_cast<std::size_t>(location)].value = value; }
  std::uint64_t load(int location, bool acquire);
  void store(int location, std::uint64_t value, bool release);
  /// The value before; `change` says what follows, or that nothing does.
  std::uint64_t update(int location, const std::function<std::pair<bool, std::uint64_t>(std::uint64_t)>& change,
                       bool acquire, bool release);
  void fence();
  /// Waits until the location is not 0 and sets it to 0: a sleep.
  void sleep_on(int location);

  int fiber() const { return running_; }
  /// Whether a fiber's stores have all reached memory.
  bool settled(int fiber) const { return fibers_[static_cast<std::size_t>(fiber)].buffer.empty(); }
  const Clock& clock() const { return fibers_[static_cast<std::size_t>(running_)].clock; }
  /// The running fiber's place in its body and all that it remembers are told by `facts`: what it read before is
  /// forgotten.
  void know(std::initializer_list<int> facts) {
    self().history = 0;
    for (const int fact : facts) note(static_cast<std::uint64_t>(fact));
  }
  /// Plain data is part of the state.
  using Data = std::function<void(const std::function<void(std::uint64_t)>&)>;
  void add_data(const void* key, Data data) { data_.emplace_back(key, std::move(data)); }
  void remove_data(const void* key) {
    std::erase_if(data_, [key](const auto& entry) { return entry.first == key; });
  }
  void fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }

 private:
  struct Location {
    std::uint64_t value = 0;
    Clock released{};
  };
  struct Buffered {
    int location = 0;
    std::uint64_t value = 0;
    bool release = false;
    Clock clock{};
  };
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    std::function<void()> body;
    bool started = false;
    bool done = false;
    int sleeping_on = -1;
    std::uint64_t history = 0;
    Clock clock{};
    std::deque<Buffered> buffer;
  };

  Fiber& self() { return fibers_[static_cast<std::size_t>(running_)]; }
  Location& at(int location) { return memory_[static_cast<std::size_t>(location)]; }
  void yield() { swapcontext(&self().context, &scheduler_); }
  void note(std::uint64_t read) { self().history = mix(self().history, read); }
  static std::uint64_t mix(std::uint64_t hash, std::uint64_t part) {
    hash = ((hash + 0x9e3779b97f4a7c15U) ^ part) * 0xff51afd7ed558ccdU;
    return hash ^ (hash >> 32);
  }
  void tick() { ++self().clock[static_cast<std::size_t>(running_)]; }
  void flush_one(Fiber& fiber);
  void drain() {
    while (!self().buffer.empty()) flush_one(self());
  }
  std::uint64_t state() const;
  std::vector<int> choices() const;
  void run_fiber(int index);
  static void enter();

  std::vector<Location> memory_;
  std::deque<Fiber> fibers_;               // contexts must not move
  std::vector<std::vector<char>> stacks_;  // of fibers that ended
  ucontext_t scheduler_{};
  int running_ = -1;
  std::vector<std::pair<const void*, Data>> data_;
  std::string error_;
  static inline thread_local World* current_ = nullptr;
};

inline std::uint64_t World::load(int location, bool acquire) {
  Fiber& fiber = self();
  const auto own = [&fiber, location] {
    return std::find_if(fiber.buffer.rbegin(), fiber.buffer.rend(),
                        [location](const Buffered& store) { return store.location == location; });
  };
  // Nobody sees a thread read its own store, so that no other order needs trying. It may be let out meanwhile.
  if (own() == fiber.buffer.rend()) yield();
  const auto held = own();
  if (held == fiber.buffer.rend() && acquire) join(fiber.clock, at(location).released);
  const std::uint64_t value = held != fiber.buffer.rend() ? held->value : at(location).value;
  note(value);
  return value;
}

inline void World::store(int location, std::uint64_t value, bool release) {
  tick();  // nobody sees it yet
  self().buffer.push_back({location, value, release, self().clock});
  tick();  // what comes next is not released by it
  note(value);
}

inline void World::flush_one(Fiber& fiber) {
  const Buffered& next = fiber.buffer.front();
  at(next.location) = {next.value, next.release ? next.clock : Clock{}};
  fiber.buffer.pop_front();
}

inline std::uint64_t World::update(int location,
                                   const std::function<std::pair<bool, std::uint64_t>(std::uint64_t)>& change,
                                   bool acquire, bool release) {
  yield();
  drain();
  Location& place = at(location);
  if (acquire) join(self().clock, place.released);
  const std::uint64_t before = place.value;
  note(before);
  const auto [changes, after] = change(before);
  if (changes) {
    tick();
    place.value = after;
    if (release) join(place.released, self().clock);  // and the release sequence goes on
    tick();
  }
  return before;
}

inline void World::fence() {
  if (!self().buffer.empty()) yield();
  drain();
  note(4);
}

inline void World::sleep_on(int location) {
  drain();  // a system call
  self().sleeping_on = location;
  yield();
  self().sleeping_on = -1;
  note(5);
  at(location).value = 0;
}

inline std::uint64_t World::state() const {
  std::uint64_t hash = 0;
  const std::function<void(std::uint64_t)> add = [&hash](std::uint64_t part) { hash = mix(hash, part); };
  const auto add_clock = [&add](const Clock& clock) {
    for (const int time : clock) add(static_cast<std::uint64_t>(time));
  };
  for (const Location& location : memory_) {
    add(location.value);
    add_clock(location.released);
  }
  for (const Fiber& fiber : fibers_) {
    add(fiber.history);
    add(fiber.started ? 1 : 0);
    add_clock(fiber.clock);
    add(static_cast<std::uint64_t>(fiber.done ? -1 : fiber.sleeping_on + 1));
    add(fiber.buffer.size());
    for (const Buffered& store : fiber.buffer) {
      add(static_cast<std::uint64_t>(store.location));
      add(store.value);
      add(store.release ? 1 : 0);
      add_clock(store.clock);
    }
  }
  for (const auto& [key, data] : data_) data(add);
  return hash;
}

/// Fiber i goes on: i. The oldest store of fiber i reaches memory: kMaxFibers + i.
inline std::vector<int> World::choices() const {
  std::vector<int> all;
  for (int i = 0; i < static_cast<int>(fibers_.size()); ++i) {
    const Fiber& fiber = fibers_[static_cast<std::size_t>(i)];
    const bool asleep = fiber.sleeping_on >= 0 && memory_[static_cast<std::size_t>(fiber.sleeping_on)].value == 0;
    if (!fiber.done && !asleep) all.push_back(i);
    if (!fiber.buffer.empty()) all.push_back(kMaxFibers + i);
  }
  return all;
}

inline void World::enter() {
  World& world = now();
  Fiber& fiber = world.self();
  fiber.body();
  fiber.done = true;
  swapcontext(&fiber.context, &world.scheduler_);
}

inline void World::run_fiber(int index) {
  running_ = index;
  self().started = true;
  swapcontext(&scheduler_, &self().context);
  running_ = -1;
}

inline World::Outcome World::search(const Setup& setup, const Verdict& verdict, std::uint64_t max_executions) {
  Outcome outcome;
  current_ = this;
  std::unordered_set<std::uint64_t> known;
  // The path to the current state: what could be done at each step and which of it is being tried.
  struct Step {
    std::vector<int> choices;
    std::size_t tried = 0;
  };
  std::vector<Step> path;
  do {
    CHECK(++outcome.executions <= max_executions);
    memory_.clear();
    for (Fiber& fiber : fibers_) stacks_.push_back(std::move(fiber.stack));
    fibers_.clear();
    error_.clear();
    const auto bodies = setup(*this);
    CHECK(bodies.size() <= kMaxFibers);
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      Fiber& fiber = fibers_.emplace_back();
      fiber.body = bodies[i];
      if (!stacks_.empty()) {
        fiber.stack = std::move(stacks_.back());
        stacks_.pop_back();
      }
      fiber.stack.resize(std::size_t{64} << 10);
      fiber.clock[i] = 1;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &World::enter, 0);
    }
    for (std::size_t step = 0;; ++step) {
      const std::vector<int> possible = choices();
      if (possible.empty()) break;
      if (step == path.size()) {
        // Beyond a known state there is nothing new, but fibers want to end: the first choice, never another.
        const bool fresh = known.insert(state()).second;
        path.push_back({fresh ? possible : std::vector<int>{possible.front()}});
      }
      const int choice = path[step].choices[path[step].tried];
      if (choice < kMaxFibers) {
        run_fiber(choice);
      } else {
        flush_one(fibers_[static_cast<std::size_t>(choice - kMaxFibers)]);
      }
    }
    for (const Fiber& fiber : fibers_)
      if (!fiber.done) fail("a fiber sleeps for ever");
    if (error_.empty()) fail(verdict());
    while (!path.empty() && path.back().tried + 1 == path.back().choices.size()) path.pop_back();
    if (!path.empty()) ++path.back().tried;
  } while (error_.empty() && !path.empty());
  outcome.states = known.size();
  outcome.error = error_;
  current_ = nullptr;
  return outcome;
}

constexpr bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
constexpr bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

/// Stands in for std::atomic of an integer.
template <class T>
class Atomic {
 public:
  static_assert(std::is_integral_v<T>);

  Atomic(T value = 0) : location_(World::now().new_location()) {
    World::now().initialise(location_, static_cast<std::uint64_t>(value));
  }
  Atomic(const Atomic&) = delete;

  T load(std::memory_order order) const { return static_cast<T>(World::now().load(location_, acquires(order))); }
  void store(T value, std::memory_order order) {
    if (World::now().fiber() < 0) return World::now().initialise(location_, static_cast<std::uint64_t>(value));
    World::now().store(location_, static_cast<std::uint64_t>(value), releases(order));
    if (order == std::memory_order_seq_cst) World::now().fence();
  }
  T exchange(T value, std::memory_order order) {
    return update([value](std::uint64_t) { return std::pair(true, static_cast<std::uint64_t>(value)); }, order);
  }
  T fetch_or(T bits, std::memory_order order) {
    return update([bits](std::uint64_t old) { return std::pair(true, old | static_cast<std::uint64_t>(bits)); }, order);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order) {
    const T before = update(
        [&](std::uint64_t old) {
          return std::pair(old == static_cast<std::uint64_t>(expected), static_cast<std::uint64_t>(desired));
        },
        order);
    const bool done = before == expected;
    expected = before;
    return done;
  }

 private:
  template <class Change>
  T update(const Change& change, std::memory_order order) {
    return static_cast<T>(World::now().update(location_, change, acquires(order), releases(order)));
  }
  int location_;
};

/// Plain data: reports reads and writes that nothing orders.
class Plain {
 public:
  Plain(int value = 0) : value_(value) { begin(); }
  Plain(Plain&& other) noexcept : value_(other.get()) { begin(); }
  ~Plain() { world_.remove_data(this); }
  Plain& operator=(Plain&& other) noexcept {
    const int value = other.get();
    written();
    value_ = value;
    return *this;
  }

  int get() const {
    World& world = World::now();
    if (world.fiber() < 0) return value_;
    check(writer_, "a read races with a write");
    readers_[static_cast<std::size_t>(world.fiber())] = world.clock()[static_cast<std::size_t>(world.fiber())];
    return value_;
  }

 private:
  void begin() {
    world_.add_data(this, [this](const auto& add) {
      add(static_cast<std::uint64_t>(value_));
      for (const Clock& clock : {writer_, readers_})
        for (const int time : clock) add(static_cast<std::uint64_t>(time));
    });
    written();
  }
  void written() {
    World& world = World::now();
    if (world.fiber() < 0) return;
    check(writer_, "a write races with a write");
    check(readers_, "a write races with a read");
    writer_ = {};
    writer_[static_cast<std::size_t>(world.fiber())] = world.clock()[static_cast<std::size_t>(world.fiber())];
    readers_ = {};
  }
  /// All of `times` happened before now.
  static void check(const Clock& times, const char* what) {
    World& world = World::now();
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times[i] > world.clock()[i]) world.fail(what);
  }

  World& world_ = World::now();
  int value_;
  Clock writer_{};           // when it was written last: the writer's own time
  mutable Clock readers_{};  // and read since, by each
};

/// Stands in for the kernel's flag.
class Event {
 public:
  Event() : location_(World::now().new_location()) {}
  void signal() {
    World::now().update(
        location_, [](std::uint64_t) { return std::pair(true, std::uint64_t{1}); }, false, false);
  }
  void wait() { World::now().sleep_on(location_); }

 private:
  int location_;
};

/// Memory for Ring and Doorbell.
struct Memory {
  template <class T>
  using Atomic = interleave::Atomic<T>;
  using Event = interleave::Event;
  static void fence() { World::now().fence(); }
};

}  // namespace colibri::interleave
