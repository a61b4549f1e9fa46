// SPDX-License-Identifier: Apache-2.0
// The operations with a state of their own: short convolution and the gated delta rule.
// Invariant: a thread owns a channel, or a column of one head's matrix, of one sequence and walks its rows in order, so
// that a prompt in one piece, in chunks or token by token is the same chain.
#include "backend/cuda/device.cuh"
#include "base/check.h"

namespace colibri::cuda {
namespace {

constexpr int kThreads = 128;
constexpr float kUnitEps = 1e-6F;

__global__ void short_conv_kernel(DeviceBatch batch, ConstPlace x, int cols, int before, const float* weight,
                                  const float* bias, StateView state, int group, Place out) {
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= cols) return;
  const int sequence = blockIdx.y;
  const int first = batch.first_rows[sequence];
  const int rows = batch.first_rows[sequence + 1] - first;
  float* window = state.base + table_entry(batch, group, sequence, 0) * state.slot_stride + c;
  const auto input = [&](int i) {
    return i >= 0 ? x.row(first + i)[c] : window[static_cast<std::ptrdiff_t>(before + i) * cols];
  };
  for (int i = 0; i < rows; ++i) {
    float sum = bias == nullptr ? 0.0F : bias[c];
    for (int j = 0; j <= before; ++j)
      sum = fmaf(weight[static_cast<std::ptrdiff_t>(j) * cols + c], input(i - before + j), sum);
    out.row(first + i)[c] = sum;
  }
  // Ascending: a row of the window is overwritten only after it has moved up.
  for (int j = 0; j < before; ++j) window[static_cast<std::ptrdiff_t>(j) * cols] = input(rows - before + j);
}

struct Delta {
  int heads;
  int group;  // value heads of a key head
  int k_dim;
  int v_dim;
  int key_cols;
  std::ptrdiff_t window_floats;
  std::ptrdiff_t stride;  // of a row of the matrix
  int kv_group;
};

/// A block of threads for each sequence and value head; shared memory holds q and k of the row, [2 k_dim].
__global__ void delta_kernel(DeviceBatch batch, ConstPlace qkv, ConstPlace gates, Delta spec, const float* a_log,
                             const float* dt_bias, StateView state, Place out) {
  extern __shared__ float unit[];
  const int sequence = blockIdx.x;
  const int h = blockIdx.y;
  const int key = h / spec.group * spec.k_dim;
  float* matrix = state.base + table_entry(batch, spec.kv_group, sequence, 0) * state.slot_stride + spec.window_floats +
                  static_cast<std::ptrdiff_t>(h) * spec.k_dim * spec.stride;
  const float rate = expf(a_log[h]);
  for (int r = batch.first_rows[sequence]; r < batch.first_rows[sequence + 1]; ++r) {
    const float* row = qkv.row(r);
    for (int part = 0; part < 2; ++part) {
      const float* from = row + part * spec.key_cols + key;
      float squares = 0.0F;
      for (int i = threadIdx.x; i < spec.k_dim; i += kThreads) squares = fmaf(from[i], from[i], squares);
      float factor = 1.0F / sqrtf(block_sum(squares) + kUnitEps);
      if (part == 0) factor /= sqrtf(static_cast<float>(spec.k_dim));
      for (int i = threadIdx.x; i < spec.k_dim; i += kThreads) unit[part * spec.k_dim + i] = from[i] * factor;
    }
    __syncthreads();
    const float beta = sigmoid(gates.row(r)[h]);
    const float step = gates.row(r)[spec.heads + h] + dt_bias[h];
    const float decay = expf(-rate * (step > 20.0F ? step : log1pf(expf(step))));
    for (int j = threadIdx.x; j < spec.v_dim; j += kThreads) {
      float held = 0.0F;
      for (int i = 0; i < spec.k_dim; ++i) held = fmaf(decay * matrix[i * spec.stride + j], unit[spec.k_dim + i], held);
      const float change = beta * (row[2 * spec.key_cols + h * spec.v_dim + j] - held);
      float sum = 0.0F;
      for (int i = 0; i < spec.k_dim; ++i) {
        float& at = matrix[i * spec.stride + j];
        at = fmaf(unit[spec.k_dim + i], change, decay * at);
        sum = fmaf(at, unit[i], sum);
      }
      out.row(r)[h * spec.v_dim + j] = sum;
    }
    __syncthreads();
  }
}

}  // namespace

void CudaBackend::short_conv(ConstRows x, std::span<const float> weight, std::span<const float> bias,
                             const Batch& batch, const StateView& state, int group, Rows out) {
  CHECK(x.rows == batch.rows() && out.rows == x.rows && out.cols == x.cols && x.cols > 0);
  const int before = static_cast<int>(weight.size()) / x.cols - 1;
  CHECK(before >= 0 && static_cast<int>(weight.size()) == (before + 1) * x.cols);
  if (x.rows == 0) return;
  short_conv_kernel<<<dim3(ceil_div(x.cols, kThreads), static_cast<unsigned>(batch.sequences.size())), kThreads, 0,
                      stream_>>>(batch_, on_device(x), x.cols, before, weight.data(),
                                 bias.empty() ? nullptr : bias.data(), state, group, on_device(out));
  check(cudaGetLastError(), "short_conv");
}

void CudaBackend::delta_rule(ConstRows qkv, ConstRows gates, const DeltaNetSpec& spec, std::span<const float> a_log,
                             std::span<const float> dt_bias, const Batch& batch, const StateView& state, Rows out) {
  CHECK(qkv.rows == batch.rows() && gates.rows == qkv.rows && out.rows == qkv.rows);
  CHECK(qkv.cols == spec.conv_cols() && gates.cols == 2 * spec.n_v_heads && out.cols == spec.value_cols());
  if (qkv.rows == 0) return;
  const Delta delta{spec.n_v_heads,
                    spec.n_v_heads / spec.n_k_heads,
                    spec.k_dim,
                    spec.v_dim,
                    spec.key_cols(),
                    static_cast<std::ptrdiff_t>(spec.window_floats()),
                    static_cast<std::ptrdiff_t>(spec.matrix_stride()),
                    spec.kv_group};
  const std::size_t shared = 2 * static_cast<std::size_t>(spec.k_dim) * sizeof(float);
  delta_kernel<<<dim3(static_cast<unsigned>(batch.sequences.size()), spec.n_v_heads), kThreads, shared, stream_>>>(
      batch_, on_device(qkv), on_device(gates), delta, a_log.data(), dt_bias.data(), state, on_device(out));
  check(cudaGetLastError(), "delta_rule");
}

}  // namespace colibri::cuda
