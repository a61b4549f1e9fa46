// SPDX-License-Identifier: Apache-2.0
// A flat map from a pair of 32-bit numbers to a 64-bit value: merges, edges of a trie, single characters.
// Invariant: built once and then read from any thread; slots are a power of two, at most three quarters full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace colibri {

class PairTable {
 public:
  PairTable();

  /// Sets the value of a pair; (2^32 - 1, 2^32 - 1) is no pair.
  void set(std::uint32_t first, std::uint32_t second, std::uint64_t value);

  /// The value, or nullptr; it lives until the next set().
  const std::uint64_t* find(std::uint32_t first, std::uint32_t second) const {
    const Slot& slot = slots_[place(key_of(first, second))];
    return slot.key == kFree ? nullptr : &slot.value;
  }

 private:
  struct Slot {
    std::uint64_t key = kFree;
    std::uint64_t value = 0;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  static std::uint64_t key_of(std::uint32_t first, std::uint32_t second) { return std::uint64_t{first} << 32 | second; }
  /// The slot of a key, or the free one where it belongs.
  std::size_t place(std::uint64_t key) const {
    std::uint64_t mixed = (key ^ seed_) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93u;
    std::size_t at = static_cast<std::size_t>(mixed >> 32) & (slots_.size() - 1);
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::uint64_t seed_;  // drawn per process, so that no file can choose keys that collide
};

}  // namespace colibri
