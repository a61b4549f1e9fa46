// SPDX-License-Identifier: Apache-2.0
// The operations on rows alone: embedding, norm, activation, gated sum.
#include "backend/cpu/cpu.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace colibri::cpu {

float* Scratch::floats(std::size_t count) {
  if (buffer_.size() < count * sizeof(float)) {
    // Half as much again, so that slowly growing batches do not map anew at each step.
    buffer_ = Buffer::allocate(count * sizeof(float) * 3 / 2, "scratch of the cpu backend").value();
  }
  return reinterpret_cast<float*>(buffer_.data());
}

double CpuBackend::measure_flops() {
  constexpr int kRounds = 200'000;  // a few milliseconds
  double best = 0.0;
  for (int attempt = 0; attempt < 8; ++attempt) {  // the best counts: the machine may be shared
    std::vector<double> done(static_cast<std::size_t>(pool_.size()));
    const auto start = Clock::now();
    pool_.parallel(pool_.size(),
                   [&](int task, int) { done[static_cast<std::size_t>(task)] = simd_.multiply_adds(kRounds); });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, std::accumulate(done.begin(), done.end(), 0.0) / seconds);
  }
  return best;
}

void CpuBackend::embed(const Batch& batch, const Matrix& table, Rows out) {
  CHECK(batch.rows() == out.rows && out.cols == table.cols);
  for_rows(out.rows, static_cast<std::size_t>(table.cols), [&](int first, int last) {
    for (int r = first; r < last; ++r) {
      const std::int32_t token = batch.tokens[static_cast<std::size_t>(r)];
      CHECK(token >= 0 && token < table.rows);
      const std::uint16_t* pair = table.tile(token / kTileRows) + token % kTileRows * 2;
      float* to = out.row(r);
      for (int k = 0; k < table.cols; k += 2, pair += 2 * kTileRows) {
        to[k] = bf16_to_float(pair[0]);
        if (k + 1 < table.cols) to[k + 1] = bf16_to_float(pair[1]);
      }
    }
  });
}

void CpuBackend::gather(ConstRows x, const Batch& batch, Rows out) {
  CHECK(out.rows == static_cast<int>(batch.logit_rows.size()) && x.cols == out.cols);
  for (int i = 0; i < out.rows; ++i)
    std::copy_n(x.row(batch.logit_rows[static_cast<std::size_t>(i)]), out.cols, out.row(i));
}

void CpuBackend::norm_row(const float* x, std::span<const float> weight, float eps, float* out) const {
  const int n = static_cast<int>(weight.size());
  const float mean = simd_.sum_squares(x, n) / static_cast<float>(n);
  simd_.scale_by(x, 1.0F / std::sqrt(mean + eps), weight.data(), n, out);
}

void CpuBackend::rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows out) {
  CHECK(x.rows == out.rows && x.cols == out.cols && static_cast<int>(weight.size()) == x.cols);
  for_rows(x.rows, weight.size(), [&](int first, int last) {
    for (int r = first; r < last; ++r) norm_row(x.row(r), weight, eps, out.row(r));
  });
}

void CpuBackend::layer_norm(ConstRows x, std::span<const float> weight, std::span<const float> bias, float eps,
                            Rows out) {
  const int n = x.cols;
  CHECK(x.rows == out.rows && n == out.cols && static_cast<int>(weight.size()) == n && weight.size() == bias.size());
  for_rows(x.rows, std::size_t{2} * weight.size(), [&](int first, int last) {
    for (int r = first; r < last; ++r) {
      const float* from = x.row(r);
      float* to = out.row(r);
      const float mean = simd_.sum(from, n) / static_cast<float>(n);
      for (int i = 0; i < n; ++i) to[i] = from[i] - mean;
      norm_row(to, weight, eps, to);
      for (int i = 0; i < n; ++i) to[i] += bias[static_cast<std::size_t>(i)];
    }
  });
}

void CpuBackend::scale(Rows x, float factor) {
  for_rows(x.rows, static_cast<std::size_t>(x.cols), [&](int first, int last) {
    for (int r = first; r < last; ++r)
      for (int i = 0; i < x.cols; ++i) x.row(r)[i] *= factor;
  });
}

void CpuBackend::silu_mul(ConstRows gate, ConstRows up, Rows out) {
  CHECK(gate.rows == out.rows && up.rows == out.rows && gate.cols == out.cols && up.cols == out.cols);
  for_rows(out.rows, std::size_t{4} * static_cast<std::size_t>(out.cols), [&](int first, int last) {
    for (int r = first; r < last; ++r) simd_.silu_mul(gate.row(r), up.row(r), out.cols, out.row(r));
  });
}

void CpuBackend::sigmoid_mul(ConstRows x, ConstRows gate, Rows out) {
  CHECK(x.rows == out.rows && gate.rows == out.rows && x.cols == out.cols && gate.cols == out.cols);
  for_rows(out.rows, std::size_t{4} * static_cast<std::size_t>(out.cols), [&](int first, int last) {
    for (int r = first; r < last; ++r) simd_.sigmoid_mul(x.row(r), gate.row(r), out.cols, out.row(r));
  });
}

void CpuBackend::multiply(ConstRows x, ConstRows y, Rows out) {
  CHECK(x.rows == out.rows && y.rows == out.rows && x.cols == out.cols && y.cols == out.cols);
  for_rows(out.rows, static_cast<std::size_t>(out.cols), [&](int first, int last) {
    for (int r = first; r < last; ++r) simd_.scale_by(x.row(r), 1.0F, y.row(r), out.cols, out.row(r));
  });
}

void CpuBackend::add_gated(ConstRows y, ConstRows gate, Rows out) {
  CHECK(y.rows == out.rows && y.cols == out.cols && (gate.cols == 0 || gate.rows == out.rows));
  for_rows(out.rows, static_cast<std::size_t>(out.cols), [&](int first, int last) {
    for (int r = first; r < last; ++r) {
      const float factor = gate.cols == 0 ? 1.0F : 1.0F / (1.0F + std::exp(-gate.row(r)[0]));
      simd_.add_scaled(y.row(r), factor, out.cols, out.row(r));
    }
  });
}

}  // namespace colibri::cpu
