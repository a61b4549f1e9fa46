// SPDX-License-Identifier: Apache-2.0
// A bounded lock-free ring: many producers, one consumer (the cell sequence numbers of Vyukov's bounded queue).
//
// Invariant: cell i is writable by the producer that claimed position p when its sequence is p, readable by the
// consumer when it is p + 1, and writable again, one lap on, when it is p + capacity. A full ring refuses; nothing is
// overwritten. After close() no position is claimed; what was claimed before is still handed over.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace colibri {

/// The machine's memory. Tests put another in its place that tries all orders.
struct MachineMemory {
  template <class T>
  using Atomic = std::atomic<T>;
};

enum class Push : std::uint8_t { done, full, closed };

template <class T, class Memory = MachineMemory>
class Ring {
 public:
  /// Capacity is rounded up to a power of two. Positions count from `first`, modulo 2^63.
  explicit Ring(std::size_t capacity, std::size_t first = 0)
      : mask_(std::bit_ceil(capacity < 2 ? std::size_t{2} : capacity) - 1),
        cells_(std::make_unique<Cell[]>(mask_ + 1)),
        tail_(first & ~kClosed),
        head_(first & ~kClosed) {
    for (std::size_t i = 0; i <= mask_; ++i) {
      const std::size_t position = wrapped(head_ + i);
      cells_[position & mask_].sequence.store(position, std::memory_order_relaxed);
    }
  }

  std::size_t capacity() const { return mask_ + 1; }

  /// Any thread. `value` is untouched where it was not taken.
  Push try_push(T& value) {
    std::size_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if ((position & kClosed) != 0) return Push::closed;
      Cell& cell = cells_[position & mask_];
      const std::size_t sequence = cell.sequence.load(std::memory_order_acquire);
      if (sequence == position) {
        if (tail_.compare_exchange_weak(position, wrapped(position + 1), std::memory_order_relaxed)) {
          cell.value = std::move(value);
          cell.sequence.store(wrapped(position + 1), std::memory_order_release);
          return Push::done;
        }
      } else {
        const std::size_t now = tail_.load(std::memory_order_relaxed);
        if (now == position) return Push::full;  // the cell still holds what was written one lap ago
        position = now;
      }
    }
  }

  /// The consumer's thread only.
  std::optional<T> try_pop() {
    Cell& cell = cells_[head_ & mask_];
    if (cell.sequence.load(std::memory_order_acquire) != wrapped(head_ + 1)) return std::nullopt;
    std::optional<T> value(std::move(cell.value));
    cell.value = T();
    cell.sequence.store(wrapped(head_ + capacity()), std::memory_order_release);
    head_ = wrapped(head_ + 1);
    return value;
  }

  /// The consumer's thread only: whether try_pop() has something.
  bool ready() const { return cells_[head_ & mask_].sequence.load(std::memory_order_acquire) == wrapped(head_ + 1); }

  /// Any thread: from now on every push is refused.
  void close() { tail_.fetch_or(kClosed, std::memory_order_relaxed); }

  /// The consumer's thread only: the ring is closed and all that was pushed has been popped.
  bool drained() const { return tail_.load(std::memory_order_relaxed) == (head_ | kClosed); }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kClosed = std::size_t{1} << 63;  // in tail_
  static constexpr std::size_t wrapped(std::size_t position) { return position & ~kClosed; }

  struct alignas(kLine) Cell {  // two threads seldom want one line
    typename Memory::template Atomic<std::size_t> sequence{0};
    T value{};
  };

  const std::size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kLine) typename Memory::template Atomic<std::size_t> tail_;
  alignas(kLine) std::size_t head_;  // the consumer's own
};

}  // namespace colibri
