// SPDX-License-Identifier: Apache-2.0
// Purpose: gate 1, the read-only stream of one GPU, in three ways: plain 16-byte loads, loads that bypass L1, and a
// shared-memory ring filled by bulk copies; the ring also with fewer blocks than SMs.
// Invariant: every byte is read once and enters a checksum that the host compares with the fill value.
#include "common.cuh"

namespace gates {

template <bool kNoAllocate>
__global__ void stream_loads(const uint4* p, size_t n, unsigned* sum) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  unsigned acc = 0;
  auto load = [&](size_t i) {
    uint4 v;
    if (kNoAllocate) {
      asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(p + i));
    } else {
      v = __ldcs(p + i);
    }
    return v;
  };
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += 4 * step) {
    uint4 v[4] = {};
#pragma unroll
    for (int u = 0; u < 4; ++u)
      if (i + u * step < n) v[u] = load(i + u * step);
#pragma unroll
    for (int u = 0; u < 4; ++u) acc += v[u].x + v[u].y + v[u].z + v[u].w;
  }
  atomicAdd(sum, acc);
}

template <int kSlot, int kSlots>
__global__ void __launch_bounds__(288) stream_ring(const char* p, size_t chunks, unsigned* sum) {
  extern __shared__ __align__(128) char buffer[];
  __shared__ uint64_t full[kSlots], empty[kSlots];
  Ring<kSlot, kSlots, 0> ring{buffer, full, empty};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  if (warp == 8) {
    if (lane == 0) {
      const uint64_t policy = evict_first_policy();
      uint32_t n = 0;
      for (size_t c = blockIdx.x; c < chunks; c += gridDim.x) ring.push(n++, p + c * kSlot, kSlot, policy);
    }
    return;
  }
  unsigned acc = 0;
  uint32_t n = 0;
  for (size_t c = blockIdx.x; c < chunks; c += gridDim.x, ++n) {
    if (n % 8 != warp) continue;
    const uint4* q = reinterpret_cast<const uint4*>(ring.wait(n));
#pragma unroll 4
    for (int i = lane; i < kSlot / 16; i += 32) acc += q[i].x + q[i].y + q[i].z + q[i].w;
    ring.release(n, lane);
  }
  atomicAdd(sum, acc);
}

template <int kSlot, int kSlots>
void launch_ring(const char* p, size_t bytes, unsigned* sum, int blocks) {
  auto kernel = stream_ring<kSlot, kSlots>;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSlot * kSlots));
  kernel<<<blocks, 288, kSlot * kSlots>>>(p, bytes / kSlot, sum);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace gates

int main() {
  using namespace gates;
  const size_t most = size_t{8} << 30;
  char* p;
  unsigned* sum;
  CUDA_CHECK(cudaMalloc(&p, most));
  CUDA_CHECK(cudaMalloc(&sum, 4));
  CUDA_CHECK(cudaMemset(p, 0x5b, most));
  auto measure = [&](const std::string& name, size_t bytes, auto launch) {
    CUDA_CHECK(cudaMemset(sum, 0, 4));
    launch(0);
    unsigned got;
    CUDA_CHECK(cudaMemcpy(&got, sum, 4, cudaMemcpyDeviceToHost));
    if (got != static_cast<unsigned>(bytes / 4 * 0x5b5b5b5bull)) std::printf("WRONG checksum: "), std::exit(1);
    report("stream", name, bytes / median_ms(launch, 11) / 1e9, "TB/s");
  };
  for (size_t mib : {256, 8192}) {
    const size_t bytes = mib << 20;
    const std::string at = ", " + std::to_string(mib) + " MiB";
    auto* q = reinterpret_cast<uint4*>(p);
    measure("plain loads, 8 blocks of 512 per SM" + at, bytes,
            [&](int) { stream_loads<false><<<132 * 8, 512>>>(q, bytes / 16, sum); });
    measure("loads bypassing L1, 8 blocks of 512 per SM" + at, bytes,
            [&](int) { stream_loads<true><<<132 * 8, 512>>>(q, bytes / 16, sum); });
    measure("ring 13 x 16 KiB, 132 blocks" + at, bytes, [&](int) { launch_ring<16384, 13>(p, bytes, sum, 132); });
    measure("ring 13 x 16 KiB, 128 blocks" + at, bytes, [&](int) { launch_ring<16384, 13>(p, bytes, sum, 128); });
    measure("ring 26 x 8 KiB, 128 blocks" + at, bytes, [&](int) { launch_ring<8192, 26>(p, bytes, sum, 128); });
    measure("ring 52 x 4 KiB, 128 blocks" + at, bytes, [&](int) { launch_ring<4096, 52>(p, bytes, sum, 128); });
  }
  return 0;
}
