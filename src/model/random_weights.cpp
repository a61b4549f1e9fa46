// SPDX-License-Identifier: Apache-2.0
// Matrices are cut into parts, each with a seed of its own.
#include "model/random_weights.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "core/random_bits.h"

namespace colibri {
namespace {

std::vector<Matrix> matrices(const AttentionWeights& attention) { return {attention.wqkv, attention.wo}; }
std::vector<Matrix> matrices(const LatentAttentionWeights& attention) {
  std::vector<Matrix> all{attention.down, attention.q_up, attention.wo};
  all.insert(all.end(), attention.k_up.begin(), attention.k_up.end());
  all.insert(all.end(), attention.v_up.begin(), attention.v_up.end());
  return all;
}
std::vector<Matrix> matrices(const DeltaNetWeights& net) { return {net.in, net.out}; }
std::vector<Matrix> matrices(const ShortConvWeights& conv) { return {conv.in, conv.out}; }

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

}  // namespace

std::vector<RandomPart> random_parts(const ModelWeights& weights, std::uint64_t seed) {
  constexpr std::size_t kPartBytes = std::size_t{4} << 20;
  std::vector<RandomPart> parts;
  const auto add = [&](const Matrix& matrix) {
    if (matrix.rows == 0) return;
    const auto tiles = static_cast<int>(std::max(kPartBytes / matrix_bytes(kTileRows, matrix.cols), std::size_t{1}));
    for (int row = 0; row < matrix.rows; row += tiles * kTileRows) {
      const std::byte* data = matrix.data + matrix_bytes(row, matrix.cols);
      parts.push_back({{data, std::min(tiles * kTileRows, matrix.rows - row), matrix.cols},
                       random_bits::mix(seed) + random_bits::mix(parts.size())});
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

void set_random_vectors(ModelWeights& weights) {
  ones(weights.final_norm);
  for (LayerWeights& layer : weights.layers) {
    ones(layer.attn_norm);
    ones(layer.ffn_norm);
    std::visit([](auto& mixer) { set_vectors(mixer); }, layer.mixer);
  }
}

void fill_random(ModelWeights& weights, std::uint64_t seed, int n_threads, const LoadProgress& progress) {
  const std::vector<RandomPart> parts = random_parts(weights, seed);
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done{0};
  const auto run = [&](const LoadProgress& report) {
    for (std::size_t i = next++; i < parts.size(); i = next++) {
      random_bits::fill(parts[i].matrix, parts[i].seed);
      done += matrix_bytes(parts[i].matrix.rows, parts[i].matrix.cols);
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
  set_random_vectors(weights);
}

}  // namespace colibri
