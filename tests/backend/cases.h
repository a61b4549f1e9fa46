// SPDX-License-Identifier: Apache-2.0
// Random operands for the operations, and the backends to run them on: every instruction set of this processor, with
// several thread counts.
// Invariant: everything is a function of the seed; buffers that an operation must write start as NaN.
#pragma once

#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>
#include <hwy/targets.h>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace colibri::test {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr double kUnit = 0x1p-24;  // half a unit in the last place of 1: the error of one rounding

/// Floats of rows x cols with the view that operations take.
struct Values {
  int rows;
  int cols;
  std::vector<float> data;

  Values(int rows_in, int cols_in, float fill)
      : rows(rows_in),
        cols(cols_in),
        data(static_cast<std::size_t>(rows_in) * static_cast<std::size_t>(cols_in), fill) {}
  static Values random(int rows, int cols, unsigned seed) {
    Values values(rows, cols, 0.0F);
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    for (float& value : values.data) value = normal(engine);
    return values;
  }
  Rows view() { return {data.data(), rows, cols}; }
  ConstRows view() const { return {data.data(), rows, cols}; }
  float at(int r, int c) const { return data[static_cast<std::size_t>(r * cols + c)]; }
};

/// A bf16 matrix in tiles, 64-byte aligned, inside `bytes`.
inline void pack_random(std::byte* bytes, int rows, int cols, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> row(static_cast<std::size_t>(cols));
  for (int r = 0; r < rows; ++r) {
    for (auto& value : row) value = float_to_bf16(normal(engine) / std::sqrt(static_cast<float>(cols)));
    pack_row(bytes, cols, r, row.data());
  }
}

struct Weights {
  hwy::AlignedFreeUniquePtr<std::byte[]> bytes;
  Matrix matrix;

  static Weights random(int rows, int cols, unsigned seed) {
    Weights weights;
    const std::size_t size = matrix_bytes(rows, cols);
    weights.bytes = hwy::AllocateAligned<std::byte>(std::max<std::size_t>(size, 1));
    std::fill_n(weights.bytes.get(), size, std::byte{0});
    pack_random(weights.bytes.get(), rows, cols, seed);
    weights.matrix = {weights.bytes.get(), rows, cols};
    return weights;
  }
};

/// Records of random experts and their table.
struct Experts {
  std::vector<hwy::AlignedFreeUniquePtr<std::byte[]>> bytes;
  std::vector<const std::byte*> records;
  ExpertShape shape;
  Activation activation = {};

  static Experts random(int n, ExpertShape shape, unsigned seed) {
    Experts experts;
    experts.shape = shape;
    for (int e = 0; e < n; ++e) {
      auto record = hwy::AllocateAligned<std::byte>(shape.record_bytes());
      std::fill_n(record.get(), shape.record_bytes(), std::byte{0});
      const unsigned base = seed + static_cast<unsigned>(e) * 3;
      pack_random(record.get(), shape.d_ff, shape.d_model, base);
      pack_random(record.get() + shape.up_offset(), shape.d_ff, shape.d_model, base + 1);
      pack_random(record.get() + shape.down_offset(), shape.d_model, shape.d_ff, base + 2);
      if (shape.biases) {
        const Values gate_up = Values::random(1, 2 * shape.d_ff, base);
        const Values down = Values::random(1, shape.d_model, base + 1);
        std::memcpy(record.get() + shape.gate_up_bias_offset(), gate_up.data.data(), gate_up.data.size() * 4);
        std::memcpy(record.get() + shape.down_bias_offset(), down.data.data(), down.data.size() * 4);
      }
      experts.records.push_back(record.get());
      experts.bytes.push_back(std::move(record));
    }
    return experts;
  }
  ExpertTable table() const { return {shape, records, activation}; }
};

inline std::unique_ptr<Backend> backend(std::string_view name, int threads = 1) {
  return std::move(make_backend(name, threads)).value();
}

/// The cpu backend with only the instruction sets of `targets` allowed.
inline std::unique_ptr<Backend> backend_for(std::int64_t targets, int threads) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  auto made = backend("cpu", threads);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return made;
}

/// One bit for each instruction set that this processor has a build of; the plain one (no fused multiply-add in
/// hardware, and so another exp) only where `plain`.
inline std::vector<std::int64_t> targets(bool plain) {
  std::vector<std::int64_t> found;
  for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_NEON}) {
    if ((hwy::SupportedTargets() & target) != 0) found.push_back(target);
  }
  if (plain) found.push_back(HWY_STATIC_TARGET);
  return found;
}

inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i]))
        << what << " at " << i << ": " << a[i] << " and " << b[i];
  }
}

/// Runs `run(backend)` -> vector<float> on all instruction sets and thread counts: the same bits everywhere.
template <class Run>
std::vector<float> same_everywhere(Run run, bool plain = true) {
  const std::vector<float> expected = run(*backend("cpu", 1));
  for (const std::int64_t target : targets(plain)) {
    for (const int threads : {1, 2, 3}) {
      const auto variant = backend_for(target, threads);
      expect_same_bits(expected, run(*variant),
                       std::string(hwy::TargetName(target)) + " with " + std::to_string(threads) + " threads");
    }
  }
  return expected;
}

/// Prints what an operation reaches, beside right or wrong. `amount` is per call, in FLOP or bytes.
template <class Run>
void report(const char* what, double amount, const char* unit, Run run) {
  using Clock = std::chrono::steady_clock;
  run();
  double best = 1e9;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::printf("             %-44s %8.2f us %8.1f %s\n", what, best * 1e6, amount / best / 1e9, unit);
}

/// Sequences over a paged cache whose blocks are handed out in a shuffled order and start as NaN.
class Cache {
 public:
  Cache(int n_kv_heads, int head_dim, int blocks, unsigned seed = 1)
      : memory_(static_cast<std::size_t>(blocks) * kv_block_floats(n_kv_heads, head_dim), kNan) {
    view_ = {memory_.data(), static_cast<std::ptrdiff_t>(kv_block_floats(n_kv_heads, head_dim)), n_kv_heads, head_dim};
    free_.resize(static_cast<std::size_t>(blocks));
    for (int b = 0; b < blocks; ++b) free_[static_cast<std::size_t>(b)] = b;
    std::shuffle(free_.begin(), free_.end(), std::mt19937(seed));
  }

  const KvView& view() const { return view_; }
  std::int32_t take() {
    const std::int32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  /// A table for `tokens` positions.
  std::vector<std::int32_t> table(int tokens) {
    std::vector<std::int32_t> blocks;
    for (int p = 0; p < tokens; p += kBlockTokens) blocks.push_back(take());
    return blocks;
  }

 private:
  std::vector<float> memory_;
  KvView view_;
  std::vector<std::int32_t> free_;
};

/// A step over some sequences: keeps alive what a Batch only views.
class Step {
 public:
  void add(const std::vector<std::int32_t>& table, int position, int rows) {
    tables_.push_back(std::make_unique<std::span<const std::int32_t>>(table));
    sequences_.push_back({static_cast<int>(positions_.size()), rows, position, {tables_.back().get(), 1}});
    for (int i = 0; i < rows; ++i) positions_.push_back(position + i);
    tokens_.resize(positions_.size(), 0);
  }
  Batch batch() const { return {tokens_, positions_, sequences_, {}}; }
  int rows() const { return static_cast<int>(positions_.size()); }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
  std::vector<std::unique_ptr<std::span<const std::int32_t>>> tables_;
  std::vector<SequenceRows> sequences_;
};

/// Attention of `n_heads` over `n_kv_heads`, rotary over `rope_dim` of `head_dim`.
inline AttentionSpec attention_spec(int n_heads, int n_kv_heads, int head_dim, int rope_dim, int window) {
  AttentionSpec spec;
  spec.n_heads = n_heads;
  spec.n_kv_heads = n_kv_heads;
  spec.head_dim = head_dim;
  spec.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  spec.window = window;
  spec.rope.dim = rope_dim;
  for (int i = 0; i < rope_dim / 2; ++i) {
    spec.rope.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / rope_dim)));
  }
  return spec;
}

}  // namespace colibri::test
