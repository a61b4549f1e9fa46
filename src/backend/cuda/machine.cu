// SPDX-License-Identifier: Apache-2.0
// What the GPU is and what it can do at most, and random weights made on it.
// Invariant: random bits are those of core/random_bits.h.
#include <algorithm>

#include "backend/cuda/device.cuh"
#include "base/machine.h"
#include "core/random_bits.h"

namespace colibri::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void fill_kernel(std::uint64_t* out, std::size_t words, int rows, int cols, std::uint64_t seed,
                            std::uint64_t exponents) {
  const bool padded = random_bits::has_padding(rows, cols);
  for (std::size_t i = blockIdx.x * std::size_t{kThreads} + threadIdx.x; i < words;
       i += gridDim.x * std::size_t{kThreads}) {
    std::uint64_t value = random_bits::word(seed, i, exponents);
    for (int part = 0; padded && part < 4; ++part)
      if (random_bits::is_padding(4 * i + part, rows, cols)) value &= ~(std::uint64_t{0xffff} << (16 * part));
    out[i] = value;
  }
}

__global__ void read_kernel(const uint4* from, std::size_t count, std::uint32_t* sink) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  std::uint32_t sum = 0;
#pragma unroll 8
  for (std::size_t i = blockIdx.x * std::size_t{kThreads} + threadIdx.x; i < count; i += stride) {
    const uint4 value = __ldcs(from + i);
    sum += value.x ^ value.y ^ value.z ^ value.w;
  }
  if (sum == 0x9e3779b9U) *sink = sum;  // so that nothing can be left out
}

__global__ void multiply_kernel(float* sink, int rounds) {
  float sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = static_cast<float>(threadIdx.x + i);
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < 16; ++i) sums[i] = fmaf(sums[i], 0.999F, 0.001F);
  float sum = 0.0F;
  for (const float value : sums) sum += value;
  if (sum == -1.0F) *sink = sum;
}

/// The least seconds that `run` took on the stream, of some attempts after one that warms up.
template <class F>
double least_seconds(cudaStream_t stream, F run) {
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&start), "timing");
  check(cudaEventCreate(&end), "timing");
  float best = 1e9F;
  for (int attempt = 0; attempt < 6; ++attempt) {
    check(cudaEventRecord(start, stream), "timing");
    run();
    check(cudaEventRecord(end, stream), "timing");
    check(cudaEventSynchronize(end), "timing");
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, start, end), "timing");
    if (attempt > 0) best = std::min(best, milliseconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  return static_cast<double>(best) * 1e-3;
}

cudaDeviceProp properties() {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, 0), "properties");
  return found;
}

}  // namespace

void CudaBackend::fill_random(const Matrix& matrix, std::uint64_t seed) {
  const std::size_t words = matrix_bytes(matrix.rows, matrix.cols) / sizeof(std::uint64_t);
  if (words == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((words + kThreads - 1) / kThreads, 4096));
  fill_kernel<<<blocks, kThreads, 0, stream_>>>(reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(matrix.data)),
                                                words, matrix.rows, matrix.cols, seed,
                                                random_bits::exponents(matrix.cols));
  check(cudaGetLastError(), "fill_random");
}

Device CudaBackend::device() const {
  int version = 0;
  check(cudaDriverGetVersion(&version), "driver");
  return {cpu_name(), properties().name,
          "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)};
}

Result<double> CudaBackend::measure_read_bandwidth(std::size_t bytes) {
  // Several times what the second-level cache holds: weights come from memory at every step.
  const std::size_t least = std::size_t{8} * static_cast<std::size_t>(properties().l2CacheSize);
  const std::size_t size = round_up(std::max(bytes, least), sizeof(uint4));
  TRY(memory, allocate(size, "the bandwidth probe"));
  const auto blocks = static_cast<unsigned>(properties().multiProcessorCount * 8);
  const double seconds = least_seconds(stream_, [&] {
    read_kernel<<<blocks, kThreads, 0, stream_>>>(reinterpret_cast<const uint4*>(memory.data()), size / sizeof(uint4),
                                                  reinterpret_cast<std::uint32_t*>(memory.data()));
  });
  return static_cast<double>(size) / seconds;
}

double CudaBackend::measure_flops() {
  constexpr int kRounds = 4096;
  const auto blocks = static_cast<unsigned>(properties().multiProcessorCount * 8);
  auto* sink = reinterpret_cast<float*>(work(sizeof(float)));
  const double seconds =
      least_seconds(stream_, [&] { multiply_kernel<<<blocks, kThreads, 0, stream_>>>(sink, kRounds); });
  return 2.0 * 16 * kRounds * kThreads * blocks / seconds;
}

}  // namespace colibri::cuda
