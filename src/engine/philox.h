// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers (Philox-4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
// Invariant: the number for (seed, position) depends on nothing else, so a request's tokens never depend on its batch.
#pragma once

#include <array>
#include <cstdint>

namespace colibri {

/// Ten rounds over the counter {position, 0} with key `seed`.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t position) {
  std::array<std::uint32_t, 4> counter{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                                       0, 0};
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

/// Uniform in [0, 1) with 53 bits.
constexpr double uniform(std::uint64_t seed, std::uint64_t position) {
  const auto words = philox(seed, position);
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace colibri
