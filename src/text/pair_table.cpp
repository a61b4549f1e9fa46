// SPDX-License-Identifier: Apache-2.0
// A flat map from a pair of 32-bit numbers. Invariant: growing keeps every pair.
#include "text/pair_table.h"

#include <random>
#include <utility>

namespace colibri {
namespace {

std::uint64_t process_seed() {
  static const std::uint64_t seed = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }();
  return seed;
}

}  // namespace

PairTable::PairTable() : slots_(16), seed_(process_seed()) {}

void PairTable::set(std::uint32_t first, std::uint32_t second, std::uint64_t value) {
  if (4 * (used_ + 1) > 3 * slots_.size()) {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    for (const Slot& slot : old)
      if (slot.key != kFree) slots_[place(slot.key)] = slot;
  }
  Slot& slot = slots_[place(key_of(first, second))];
  used_ += slot.key == kFree;
  slot = {key_of(first, second), value};
}

}  // namespace colibri
