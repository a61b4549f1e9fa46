// SPDX-License-Identifier: Apache-2.0
// The operations with a state of their own: short convolution and the gated delta rule.
// Invariant: a task owns some channels, or some columns of one head, of one sequence and walks its rows in order, so
// that a prompt in one piece, in chunks or token by token is the same chain.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu.h"
#include "base/check.h"

namespace colibri::cpu {
namespace {

constexpr int kTaskChannels = 256;
constexpr int kTaskColumns = 64;  // 32 KB of state where k_dim is 128: stays in the first-level cache
constexpr float kUnitEps = 1e-6F;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

}  // namespace

void CpuBackend::short_conv(ConstRows x, std::span<const float> weight, std::span<const float> bias, const Batch& batch,
                            const StateView& state, int group, Rows out) {
  const int cols = x.cols;
  const int before = static_cast<int>(weight.size()) / std::max(cols, 1) - 1;  // rows that the window holds
  CHECK(x.rows == batch.rows() && out.rows == x.rows && out.cols == cols && before >= 0);
  CHECK(static_cast<int>(weight.size()) == (before + 1) * cols);
  CHECK(bias.empty() || static_cast<int>(bias.size()) == cols);
  const int parts = ceil_div(cols, kTaskChannels);
  pool_.parallel(static_cast<int>(batch.sequences.size()) * parts, [&](int task, int) {
    const SequenceRows& sequence = batch.sequences[static_cast<std::size_t>(task / parts)];
    const int first = task % parts * kTaskChannels;
    const int count = std::min(kTaskChannels, cols - first);
    float* window = state.slot(sequence.slot(group)) + first;
    const auto row_of = [&](int i) {
      return i >= 0 ? x.row(sequence.first_row + i) + first : window + std::ptrdiff_t{before + i} * cols;
    };
    for (int i = 0; i < sequence.rows; ++i) {
      float* to = out.row(sequence.first_row + i) + first;
      if (bias.empty()) {
        std::fill_n(to, count, 0.0F);
      } else {
        std::copy_n(bias.data() + first, count, to);
      }
      for (int j = 0; j <= before; ++j)
        simd_.add_product(weight.data() + std::ptrdiff_t{j} * cols + first, row_of(i - before + j), count, to);
    }
    // Ascending: a row of the window is overwritten only after it has moved up.
    for (int j = 0; j < before; ++j)
      std::copy_n(row_of(sequence.rows - before + j), count, window + std::ptrdiff_t{j} * cols);
  });
}

void CpuBackend::delta_rule(ConstRows qkv, ConstRows gates, const DeltaNetSpec& spec, std::span<const float> a_log,
                            std::span<const float> dt_bias, const Batch& batch, const StateView& state, Rows out) {
  const int heads = spec.n_v_heads;
  const int keys = spec.key_cols();
  CHECK(spec.n_k_heads > 0 && heads % spec.n_k_heads == 0);
  CHECK(qkv.rows == batch.rows() && gates.rows == qkv.rows && out.rows == qkv.rows);
  CHECK(qkv.cols == spec.conv_cols() && gates.cols == 2 * heads && out.cols == spec.value_cols());
  CHECK(static_cast<int>(a_log.size()) == heads && static_cast<int>(dt_bias.size()) == heads);

  const int prepared_cols = 2 * (keys + heads);  // unit q | unit k | decay | beta
  const std::size_t floats = static_cast<std::size_t>(qkv.rows) * static_cast<std::size_t>(prepared_cols);
  const Rows prepared(heads_.floats(floats), qkv.rows, prepared_cols);
  for_rows(qkv.rows, static_cast<std::size_t>(prepared_cols + 200 * heads), [&](int first, int last) {
    for (int r = first; r < last; ++r) {
      float* to = prepared.row(r);
      for (int at = 0; at < 2 * keys; at += spec.k_dim) {
        const float* from = qkv.row(r) + at;
        float factor = 1.0F / std::sqrt(simd_.sum_squares(from, spec.k_dim) + kUnitEps);
        if (at < keys) factor /= std::sqrt(static_cast<float>(spec.k_dim));
        for (int i = 0; i < spec.k_dim; ++i) to[at + i] = from[i] * factor;
      }
      for (int h = 0; h < heads; ++h) {
        const auto i = static_cast<std::size_t>(h);
        const double rate = std::exp(static_cast<double>(a_log[i]));
        const double step = softplus(static_cast<double>(gates.row(r)[heads + h]) + dt_bias[i]);
        to[2 * keys + h] = static_cast<float>(std::exp(-rate * step));
        to[2 * keys + heads + h] = static_cast<float>(sigmoid(gates.row(r)[h]));
      }
    }
  });

  const int parts = ceil_div(spec.v_dim, kTaskColumns);
  const int per_sequence = heads * parts;
  const auto stride = static_cast<std::ptrdiff_t>(spec.matrix_stride());
  pool_.parallel(static_cast<int>(batch.sequences.size()) * per_sequence, [&](int task, int) {
    const SequenceRows& sequence = batch.sequences[static_cast<std::size_t>(task / per_sequence)];
    const int h = task % per_sequence / parts;
    const int column = task % parts * kTaskColumns;
    const int width = std::min(kTaskColumns, spec.v_dim - column);
    const int key = h / (heads / spec.n_k_heads) * spec.k_dim;
    const int value = h * spec.v_dim + column;
    float* matrix = state.slot(sequence.slot(spec.kv_group)) + spec.window_floats() + h * spec.k_dim * stride + column;
    for (int r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
      const float* row = prepared.row(r);
      simd_.delta_step(matrix, stride, spec.k_dim, width, row + key, row + keys + key, qkv.row(r) + 2 * keys + value,
                       row[2 * keys + h], row[2 * keys + heads + h], out.row(r) + value);
    }
  });
}

}  // namespace colibri::cpu
