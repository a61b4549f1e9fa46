// SPDX-License-Identifier: Apache-2.0
// A bounded lock-free ring: many producers, one consumer (the cell sequence numbers of Vyukov's bounded queue).
//
// Invariant: cell i is writable by the producer that claimed position p when its sequence is p, readable by the
// consumer when it is p + 1, and writable again, one lap on, when it is p + capacity. A full ring refuses; nothing is
// overwritten.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace colibri {

template <class T>
class Ring {
 public:
  /// Capacity is rounded up to a power of two.
  explicit Ring(std::size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? std::size_t{2} : capacity) - 1),
        cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (std::size_t i = 0; i <= mask_; ++i) cells_[i].sequence.store(i, std::memory_order_relaxed);
  }

  std::size_t capacity() const { return mask_ + 1; }

  /// Any thread. False, and `value` untouched, where the ring is full.
  bool try_push(T& value) {
    std::size_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & mask_];
      const std::size_t sequence = cell.sequence.load(std::memory_order_acquire);
      const auto difference = static_cast<std::intptr_t>(sequence - position);
      if (difference == 0) {
        if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
          cell.value = std::move(value);
          cell.sequence.store(position + 1, std::memory_order_release);
          return true;
        }
      } else if (difference < 0) {
        return false;
      } else {
        position = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  /// The consumer's thread only.
  std::optional<T> try_pop() {
    Cell& cell = cells_[head_ & mask_];
    if (cell.sequence.load(std::memory_order_acquire) != head_ + 1) return std::nullopt;
    std::optional<T> value(std::move(cell.value));
    cell.value = T();
    cell.sequence.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return value;
  }

 private:
  static constexpr std::size_t kLine = 64;
  struct Cell {
    std::atomic<std::size_t> sequence;
    T value{};
  };

  const std::size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kLine) std::atomic<std::size_t> tail_{0};
  alignas(kLine) std::size_t head_ = 0;  // the consumer's own
};

}  // namespace colibri
