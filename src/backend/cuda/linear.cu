// SPDX-License-Identifier: Apache-2.0
// Products with weight matrices, and the embedding: a block of threads for each tile of 16 outputs and some rows.
// Invariant: see linear.cuh; the number of rows that share a pass over the weights is chosen by speed alone.
#include "backend/cuda/linear.cuh"
#include "base/check.h"

namespace colibri::cuda {
namespace {

template <int R>
__global__ void __launch_bounds__(kProductThreads)
    linear_kernel(ConstPlace x, int n, bool is_paired, const std::byte* matrix, int outputs, int cols,
                  const float* bias, bool accumulate, Place out, DeviceCounters* stamp) {
  __shared__ ProductShared<R> shared;
  if (stamp != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) stamp->route_start_ns = now_ns();
  const int first = static_cast<int>(blockIdx.y) * R;
  const float* rows[R];
  for (int r = 0; r < R; ++r) rows[r] = x.row(first + r);
  const auto tile = static_cast<int>(blockIdx.x);
  const float sum = tile_product<R>(tile_of(matrix, cols, tile), cols, rows, n - first, is_paired, shared);
  const int row = first + static_cast<int>(threadIdx.x) / kTileRows;
  const int output = tile * kTileRows + static_cast<int>(threadIdx.x) % kTileRows;
  if (threadIdx.x >= R * kTileRows || row >= n || output >= outputs) return;
  float& to = out.row(row)[output];
  const float value = bias == nullptr ? sum : sum + bias[output];
  to = accumulate ? to + value : value;
}

__global__ void embed_kernel(DeviceBatch batch, Matrix table, Place out) {
  const int row = blockIdx.y;
  const int k = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (k >= table.cols) return;
  const std::int32_t token = batch.tokens[row];
  const auto* tile = reinterpret_cast<const std::uint16_t*>(tile_of(table.data, table.cols, token / kTileRows));
  const std::uint32_t bits = tile[(k / 2 * kTileRows + token % kTileRows) * 2 + k % 2];
  out.row(row)[k] = low_bf16(bits);
}

__global__ void gather_kernel(DeviceBatch batch, ConstPlace x, int cols, Place out) {
  const int k = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (k < cols) out.row(blockIdx.y)[k] = x.row(batch.logit_rows[blockIdx.y])[k];
}

constexpr int kThreads = 256;

}  // namespace

void CudaBackend::product(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out,
                          DeviceCounters* stamp) {
  CHECK(x.rows == out.rows && x.cols == w.cols && out.cols == w.rows);
  CHECK(bias.empty() || static_cast<int>(bias.size()) == w.rows);
  if (x.rows == 0 || w.rows == 0) return;
  const float* bias_data = bias.empty() ? nullptr : bias.data();
  const auto launch = [&](auto kernel, int rows) {
    kernel<<<dim3(w.tiles(), ceil_div(x.rows, rows)), kProductThreads, 0, stream_>>>(
        on_device(x), x.rows, paired(x), w.data, w.rows, w.cols, bias_data, accumulate, on_device(out), stamp);
  };
  if (x.rows == 1) {
    launch(linear_kernel<1>, 1);
  } else if (x.rows == 2) {
    launch(linear_kernel<2>, 2);
  } else if (x.rows <= 4) {
    launch(linear_kernel<4>, 4);
  } else {
    launch(linear_kernel<8>, 8);
  }
  check(cudaGetLastError(), "linear");
}

void CudaBackend::linear(ConstRows x, const Matrix& w, std::span<const float> bias, bool accumulate, Rows out) {
  product(x, w, bias, accumulate, out, nullptr);
}

void CudaBackend::embed(const Batch& batch, const Matrix& table, Rows out) {
  CHECK(batch.rows() == out.rows && out.cols == table.cols);
  if (out.rows == 0) return;
  embed_kernel<<<dim3(ceil_div(out.cols, kThreads), out.rows), kThreads, 0, stream_>>>(batch_, table, on_device(out));
  check(cudaGetLastError(), "embed");
}

void CudaBackend::gather(ConstRows x, const Batch& batch, Rows out) {
  CHECK(static_cast<int>(batch.logit_rows.size()) == out.rows && out.cols == x.cols);
  if (out.rows == 0) return;
  gather_kernel<<<dim3(ceil_div(out.cols, kThreads), out.rows), kThreads, 0, stream_>>>(batch_, on_device(x), x.cols,
                                                                                        on_device(out));
  check(cudaGetLastError(), "gather");
}

}  // namespace colibri::cuda
