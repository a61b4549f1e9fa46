// SPDX-License-Identifier: Apache-2.0
// The operations on rows alone: norms, elementwise products, gated sums.
// Invariant: a norm is one block a row, thread t taking elements t, t + 256, ...: its sums depend on the row alone.
#include "backend/cuda/device.cuh"
#include "base/check.h"

namespace colibri::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void rms_norm_kernel(ConstPlace x, const float* weight, int cols, float eps, Place out) {
  const float* from = x.row(blockIdx.x);
  float* to = out.row(blockIdx.x);
  float squares = 0.0F;
  for (int i = threadIdx.x; i < cols; i += kThreads) squares = fmaf(from[i], from[i], squares);
  const float factor = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(cols) + eps);
  for (int i = threadIdx.x; i < cols; i += kThreads) to[i] = from[i] * factor * weight[i];
}

__global__ void layer_norm_kernel(ConstPlace x, const float* weight, const float* bias, int cols, float eps,
                                  Place out) {
  const float* from = x.row(blockIdx.x);
  float* to = out.row(blockIdx.x);
  float sum = 0.0F;
  for (int i = threadIdx.x; i < cols; i += kThreads) sum += from[i];
  const float mean = block_sum(sum) / static_cast<float>(cols);
  float squares = 0.0F;
  for (int i = threadIdx.x; i < cols; i += kThreads) squares = fmaf(from[i] - mean, from[i] - mean, squares);
  const float factor = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(cols) + eps);
  for (int i = threadIdx.x; i < cols; i += kThreads) to[i] = (from[i] - mean) * factor * weight[i] + bias[i];
}

/// out[r, i] = f(r, i)
template <class F>
__global__ void each_kernel(int cols, Place out, F f) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < cols) out.row(blockIdx.y)[i] = f(static_cast<int>(blockIdx.y), i);
}

template <class F>
void each(cudaStream_t stream, Rows out, const char* what, F f) {
  if (out.rows == 0 || out.cols == 0) return;
  each_kernel<<<dim3(ceil_div(out.cols, kThreads), out.rows), kThreads, 0, stream>>>(out.cols, on_device(out), f);
  check(cudaGetLastError(), what);
}

void check_same(ConstRows a, ConstRows b) { CHECK(a.rows == b.rows && a.cols == b.cols); }

}  // namespace

void CudaBackend::rms_norm(ConstRows x, std::span<const float> weight, float eps, Rows out) {
  check_same(x, out);
  CHECK(static_cast<int>(weight.size()) == x.cols);
  if (x.rows == 0) return;
  rms_norm_kernel<<<x.rows, kThreads, 0, stream_>>>(on_device(x), weight.data(), x.cols, eps, on_device(out));
  check(cudaGetLastError(), "rms_norm");
}

void CudaBackend::layer_norm(ConstRows x, std::span<const float> weight, std::span<const float> bias, float eps,
                             Rows out) {
  check_same(x, out);
  CHECK(static_cast<int>(weight.size()) == x.cols && bias.size() == weight.size());
  if (x.rows == 0) return;
  layer_norm_kernel<<<x.rows, kThreads, 0, stream_>>>(on_device(x), weight.data(), bias.data(), x.cols, eps,
                                                      on_device(out));
  check(cudaGetLastError(), "layer_norm");
}

void CudaBackend::scale(Rows x, float factor) {
  const Place to = on_device(x);
  each(stream_, x, "scale", [=] __device__(int r, int i) { return to.row(r)[i] * factor; });
}

void CudaBackend::silu_mul(ConstRows gate, ConstRows up, Rows out) {
  check_same(gate, out);
  check_same(up, out);
  const ConstPlace g = on_device(gate);
  const ConstPlace u = on_device(up);
  each(stream_, out, "silu_mul", [=] __device__(int r, int i) { return silu(g.row(r)[i]) * u.row(r)[i]; });
}

void CudaBackend::sigmoid_mul(ConstRows x, ConstRows gate, Rows out) {
  check_same(x, out);
  check_same(gate, out);
  const ConstPlace a = on_device(x);
  const ConstPlace g = on_device(gate);
  each(stream_, out, "sigmoid_mul", [=] __device__(int r, int i) { return a.row(r)[i] * sigmoid(g.row(r)[i]); });
}

void CudaBackend::multiply(ConstRows x, ConstRows y, Rows out) {
  check_same(x, out);
  check_same(y, out);
  const ConstPlace a = on_device(x);
  const ConstPlace b = on_device(y);
  each(stream_, out, "multiply", [=] __device__(int r, int i) { return a.row(r)[i] * b.row(r)[i]; });
}

void CudaBackend::add_gated(ConstRows y, ConstRows gate, Rows out) {
  check_same(y, out);
  CHECK(gate.cols <= 1 && (gate.cols == 0 || gate.rows == y.rows));
  const Place to = on_device(out);
  const ConstPlace a = on_device(y);
  const ConstPlace g = on_device(gate);
  const bool gated = gate.cols == 1;
  each(stream_, out, "add_gated",
       [=] __device__(int r, int i) { return fmaf(a.row(r)[i], gated ? sigmoid(g.row(r)[0]) : 1.0F, to.row(r)[i]); });
}

}  // namespace colibri::cuda
