// SPDX-License-Identifier: Apache-2.0
// Each 64-bit hash gives four bf16 numbers: sign and mantissa are random, the exponent is the matrix's.
#include "model/random_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <system_error>
#include <thread>

namespace colibri {
namespace {

/// splitmix64's finaliser: a bijection that mixes all bits.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Exponent field of bf16 for +-[1, 2) * 2^e with root mean square near cols^-0.5; that of +-[1, 2) is sqrt(7 / 3).
std::uint64_t exponent_field(int cols) {
  const auto exponent = static_cast<int>(std::lround(-0.5 * std::log2(cols) - 0.5 * std::log2(7.0 / 3.0)));
  return static_cast<std::uint64_t>(127 + exponent) << 7;
}

void zero_padding(const Matrix& matrix) {
  const int padded_cols = matrix.pairs() * 2;
  for (int row = 0; row < matrix.tiles() * kTileRows; ++row) {
    for (int col = row < matrix.rows ? matrix.cols : 0; col < padded_cols; ++col) {
      auto* tile = const_cast<std::uint16_t*>(matrix.tile(row / kTileRows));
      tile[(col / 2 * kTileRows + row % kTileRows) * 2 + col % 2] = 0;
    }
  }
}

void fill(const Matrix& matrix, std::uint64_t seed) {
  constexpr std::uint64_t kSignAndMantissa = 0x807f'807f'807f'807f;
  const std::uint64_t exponents = exponent_field(matrix.cols) * 0x0001'0001'0001'0001U;
  auto* out = const_cast<std::byte*>(matrix.data);
  const std::size_t words = matrix_bytes(matrix.rows, matrix.cols) / sizeof(std::uint64_t);
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = (mix(seed + i * 0x9e3779b97f4a7c15U) & kSignAndMantissa) | exponents;
    std::memcpy(out + i * sizeof word, &word, sizeof word);
  }
  if (matrix.rows % kTileRows != 0 || matrix.cols % 2 != 0) zero_padding(matrix);
}

std::vector<Matrix> matrices(const AttentionWeights& attention) { return {attention.wqkv, attention.wo}; }
std::vector<Matrix> matrices(const LatentAttentionWeights& attention) {
  std::vector<Matrix> all{attention.down, attention.q_up, attention.wo};
  all.insert(all.end(), attention.k_up.begin(), attention.k_up.end());
  all.insert(all.end(), attention.v_up.begin(), attention.v_up.end());
  return all;
}
std::vector<Matrix> matrices(const DeltaNetWeights& net) { return {net.in, net.out}; }
std::vector<Matrix> matrices(const ShortConvWeights& conv) { return {conv.in, conv.out}; }

/// A tile row range of every matrix, so that threads share the largest ones too.
std::vector<Matrix> cut(const ModelWeights& weights) {
  constexpr std::size_t kPartBytes = std::size_t{4} << 20;
  std::vector<Matrix> parts;
  const auto add = [&](const Matrix& matrix) {
    if (matrix.rows == 0) return;
    const auto tiles = static_cast<int>(std::max(kPartBytes / matrix_bytes(kTileRows, matrix.cols), std::size_t{1}));
    for (int row = 0; row < matrix.rows; row += tiles * kTileRows) {
      const std::byte* data = matrix.data + matrix_bytes(row, matrix.cols);
      parts.push_back({data, std::min(tiles * kTileRows, matrix.rows - row), matrix.cols});
    }
  };
  add(weights.embedding);
  if (weights.head.data != weights.embedding.data) add(weights.head);
  for (const LayerWeights& layer : weights.layers) {
    for (const Matrix& matrix : std::visit([](const auto& mixer) { return matrices(mixer); }, layer.mixer)) add(matrix);
    if (const auto* dense = std::get_if<DenseWeights>(&layer.ffn)) {
      add(dense->gate_up);
      add(dense->down);
      continue;
    }
    const auto& moe = std::get<MoeWeights>(layer.ffn);
    for (const Matrix& matrix : {moe.router, moe.shared_gate_up, moe.shared_down, moe.shared_gate}) add(matrix);
    const ExpertTable table = moe.experts();
    for (int e = 0; e < static_cast<int>(moe.records.size()); ++e) {
      add(table.gate(e));
      add(table.up(e));
      add(table.down(e));
    }
  }
  return parts;
}

void ones(std::span<float> values) { std::fill(values.begin(), values.end(), 1.0F); }

/// The mean over a window of `width`.
void average(std::span<float> conv, std::size_t channels) {
  std::fill(conv.begin(), conv.end(), static_cast<float>(channels) / static_cast<float>(conv.size()));
}

void set_vectors(AttentionWeights& attention) {
  ones(attention.q_norm);
  ones(attention.k_norm);
}
void set_vectors(LatentAttentionWeights& attention) {
  ones(attention.q_norm);
  ones(attention.kv_norm);
}
void set_vectors(DeltaNetWeights& net) {
  average(net.conv, static_cast<std::size_t>(net.in.rows - net.out.cols) - 2 * net.a_log.size());
  ones(net.norm);
}
void set_vectors(ShortConvWeights& conv) { average(conv.conv, static_cast<std::size_t>(conv.out.cols)); }

/// Norms are 1 and convolutions averages; all other vectors are 0.
void set_vectors(ModelWeights& weights) {
  ones(weights.final_norm);
  for (LayerWeights& layer : weights.layers) {
    ones(layer.attn_norm);
    ones(layer.ffn_norm);
    std::visit([](auto& mixer) { set_vectors(mixer); }, layer.mixer);
  }
}

}  // namespace

void fill_random(ModelWeights& weights, std::uint64_t seed, int n_threads, const LoadProgress& progress) {
  const std::vector<Matrix> parts = cut(weights);
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done{0};
  const auto run = [&](const LoadProgress& report) {
    for (std::size_t i = next++; i < parts.size(); i = next++) {
      fill(parts[i], mix(seed) + mix(i));
      done += matrix_bytes(parts[i].rows, parts[i].cols);
      if (report) report(done, weights.bytes());
    }
  };
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < n_threads; ++i) others.emplace_back([&] { run({}); });
  } catch (const std::system_error&) {
    // No more threads to be had: those that run do the work.
  }
  run(progress);
  for (std::thread& thread : others) thread.join();
  set_vectors(weights);
}

}  // namespace colibri
