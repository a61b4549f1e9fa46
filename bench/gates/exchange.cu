// SPDX-License-Identifier: Apache-2.0
// Purpose: gate 3, the price of one dependency: 128 blocks each publish 16 words (or 8) and their sum, and each need
// all of them before the next round, by barriers, counters, flags, self-describing packets, and packets shared by
// clusters; on an idle memory pipe and under a full read stream. Invariant: round r + 1 depends on every word of round
// r, and the host recomputes the last round exactly.
#include <cooperative_groups.h>

#include "common.cuh"

namespace cg = cooperative_groups;

namespace gates {

constexpr int kBlocks = 128, kThreads = 256, kSlot = 16384, kSlots = 10, kCluster = 2, kGroups = 8;
enum class Sync { kBare, kGrid, kAtomic, kCounter, kCounters, kFlags, kPacket, kClusterPacket };

struct Args {
  uint4* packets;     // [2][kCopies][kBlocks][kPackets], by parity of the round; a packet is {3 words, epoch}
  uint32_t* counter;  // [kGroups], 128 bytes apart
  uint32_t* flags;    // [kBlocks]
  uint32_t* out;      // [kBlocks][kRows] after the last round
  unsigned long long* streamed;  // bytes
  const char* stream;
  size_t stream_chunks;
  uint32_t epoch;  // epochs of this launch are epoch + 1 ..
  int rounds;
  int window;  // chunks of the read stream in flight per block, 0: none
};

// Writes 16 bytes into the same place of another block of the cluster and signals its mbarrier.
__device__ __forceinline__ void store_remote(uint32_t dst, uint32_t bar, uint32_t rank, uint4 v) {
  asm volatile(
      "{\n.reg .b32 d, b;\nmapa.shared::cluster.u32 d, %0, %2;\nmapa.shared::cluster.u32 b, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [d], {%3,%4,%5,%6}, [b];\n}" ::"r"(dst),
      "r"(bar), "r"(rank), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}

template <Sync kSync, int kRows, int kCopies>
__global__ void __launch_bounds__(kThreads + 32) exchange(Args a) {
  constexpr int kPackets = (kRows + 1 + 2) / 3;
  extern __shared__ __align__(128) char buffer[];
  __shared__ uint64_t full[kSlots], empty[kSlots], gathered[2];
  __shared__ __align__(16) uint4 got[2][kBlocks * kPackets];
  __shared__ uint32_t sums[8];
  __shared__ volatile int done;
  const int tid = threadIdx.x, lane = tid % 32, b = blockIdx.x;
  Ring<kSlot, kSlots, 0> ring{buffer, full, empty};
  if (tid == 0) {
    ring.init();
    mbar_init(&gathered[0], 1), mbar_init(&gathered[1], 1);
    done = 0;
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if constexpr (kSync == Sync::kClusterPacket) cg::this_cluster().sync();
  if (tid >= kThreads) {
    if (a.window && lane == 0) {
      const uint64_t policy = evict_first_policy();
      uint32_t n = 0;
      size_t c = b;
      auto push = [&] {
        mbar_expect(&full[n % kSlots], kSlot);
        bulk_copy(buffer + n % kSlots * kSlot, a.stream + c * kSlot, kSlot, &full[n % kSlots], policy);
        ++n, c = (c + kBlocks) % a.stream_chunks;
      };
      while (n < a.window) push();
      for (uint32_t m = 0; m < n; ++m) {
        mbar_wait(&full[m % kSlots], (m / kSlots) & 1);
        if (!done) push();
      }
      atomicAdd(a.streamed, n * static_cast<unsigned long long>(kSlot));
    }
    if constexpr (kSync == Sync::kGrid) {
      for (int r = 0; r < a.rounds; ++r) cg::this_grid().sync();
    }
    if constexpr (kSync == Sync::kClusterPacket) cg::this_cluster().sync();
    return;
  }
  auto block_sync = [] { asm volatile("bar.sync 1, 256;" ::: "memory"); };
  uint32_t value = b * kRows + lane;  // lanes 0 .. kRows - 1 of warp 0 own a row, lane kRows holds their sum
  for (int r = 0; r < a.rounds; ++r) {
    const uint32_t epoch = a.epoch + r + 1;
    uint4* packets = a.packets + (r & 1) * kCopies * kBlocks * kPackets;
    if (tid < 32) {
      if (lane > kRows) value = 0;
      const int p = lane % kPackets, copy = lane / kPackets;
      const uint32_t x = __shfl_sync(~0u, value, 3 * p), y = __shfl_sync(~0u, value, 3 * p + 1),
                     z = __shfl_sync(~0u, value, 3 * p + 2);
      if (copy < kCopies) store_packet(packets + (copy * kBlocks + b) * kPackets + p, x, y, z, epoch);
    }
    if constexpr (kSync == Sync::kGrid) cg::this_grid().sync();
    if constexpr (kSync == Sync::kAtomic || kSync == Sync::kCounter || kSync == Sync::kBare) {
      block_sync();
      if (tid == 0) {
        const uint32_t target = (a.epoch + r + 1) * kBlocks;
        if (kSync == Sync::kAtomic) {
          __threadfence();
          atomicAdd(a.counter, 1);
          while (static_cast<int>(*const_cast<volatile uint32_t*>(a.counter) - target) < 0) {
          }
          __threadfence();
        } else {
          add_release(a.counter, 1);
          while (static_cast<int>(load_acquire(a.counter) - target) < 0) {
          }
        }
      }
      block_sync();
    }
    if constexpr (kSync == Sync::kCounters) {  // eight counters, so that 16 and not 128 atomics queue at one address
      if (tid < 32) {
        __syncwarp();
        if (lane == 0) add_release(a.counter + b % kGroups * 32, 1);
        if (lane < kGroups) {
          const uint32_t target = (a.epoch + r + 1) * (kBlocks / kGroups);
          while (static_cast<int>(load_acquire(a.counter + lane * 32) - target) < 0) {
          }
        }
      }
      block_sync();
    }
    if constexpr (kSync == Sync::kFlags) {  // one flag per block, all 128 polled by one 16-byte load per lane
      if (tid < 32) {
        __syncwarp();
        if (lane == 0) store_release(a.flags + b, epoch);
        bool ready = false;
        while (!ready) {
          const uint4 f = load_packet(reinterpret_cast<const uint4*>(a.flags) + lane);
          ready = static_cast<int>(f.x - epoch) >= 0 && static_cast<int>(f.y - epoch) >= 0 &&
                  static_cast<int>(f.z - epoch) >= 0 && static_cast<int>(f.w - epoch) >= 0;
        }
        __threadfence();
      }
      block_sync();
    }
    if (kSync == Sync::kBare) continue;  // a barrier alone, no data
    packets += b % kCopies * kBlocks * kPackets;
    uint32_t sum = 0;
    if constexpr (kSync == Sync::kClusterPacket) {
      // Each block polls its share of the packets and hands them to its cluster through shared memory.
      constexpr int per = kBlocks * kPackets / kCluster;
      const int rank = b % kCluster;
      if (tid == 0) mbar_expect(&gathered[r & 1], kBlocks * kPackets * 16);
      for (int i = rank * per + tid; i < (rank + 1) * per; i += kThreads) {
        uint4 v;
        do v = load_packet(packets + i);
        while (v.w != epoch);
        for (int k = 0; k < kCluster; ++k) store_remote(smem(&got[r & 1][i]), smem(&gathered[r & 1]), k, v);
      }
      mbar_wait(&gathered[r & 1], (r >> 1) & 1);
      for (int i = tid; i < kBlocks * kPackets; i += kThreads) {
        const uint4 v = got[r & 1][i];
        sum += v.x + v.y + v.z;
      }
    } else {
      constexpr int kEach = (kBlocks * kPackets + kThreads - 1) / kThreads;
      uint4 v[kEach] = {};
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (i * kThreads + tid < kBlocks * kPackets) v[i] = load_packet(packets + i * kThreads + tid);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (kSync == Sync::kPacket && i * kThreads + tid < kBlocks * kPackets)
          while (v[i].w != epoch) v[i] = load_packet(packets + i * kThreads + tid);
        sum += v[i].x + v[i].y + v[i].z;
      }
    }
    sum = __reduce_add_sync(~0u, sum);
    if (lane == 0) sums[tid / 32] = sum;
    block_sync();
    sum = 0;
    for (int i = 0; i < 8; ++i) sum += sums[i];
    block_sync();
    if (tid < 32) {
      value = lane < kRows ? (sum ^ (b * kRows + lane)) : 0;
      const uint32_t all = __reduce_add_sync(~0u, value);
      if (lane == kRows) value = all;
    }
  }
  if (tid < kRows) a.out[b * kRows + tid] = value;
  if (tid == 0) done = 1;
  if constexpr (kSync == Sync::kClusterPacket) cg::this_cluster().sync();
}

// Lane kRows starts as an id too, not as a sum; the host mirrors that.
std::vector<uint32_t> expected(int rounds, int rows) {
  std::vector<uint32_t> v(kBlocks * rows);
  uint32_t total = 0;
  for (int b = 0; b < kBlocks; ++b)
    for (int i = 0; i <= rows; ++i) total += b * rows + i;
  for (int r = 0; r < rounds; ++r) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < v.size(); ++i) v[i] = total ^ i, next += 2 * v[i];
    total = next;
  }
  return v;
}

template <class T>
T* device_zeros(size_t n) {
  T* p;
  CUDA_CHECK(cudaMalloc(&p, n * sizeof(T)));
  CUDA_CHECK(cudaMemset(p, 0, n * sizeof(T)));
  return p;
}

template <Sync kSync, int kRows, int kCopies = 1>
void measure(const std::string& name, Args a, int window) {
  auto kernel = exchange<kSync, kRows, kCopies>;
  const int shared = kSlot * kSlots, cluster = kSync == Sync::kClusterPacket ? kCluster : 1;
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaLaunchAttribute attr[2] = {};
  attr[0].id = cudaLaunchAttributeCooperative, attr[0].val.cooperative = 1;
  attr[1].id = cudaLaunchAttributeClusterDimension;
  attr[1].val.clusterDim.x = cluster, attr[1].val.clusterDim.y = attr[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = kBlocks, config.blockDim = kThreads + 32, config.dynamicSmemBytes = shared;
  config.attrs = attr, config.numAttrs = cluster > 1 ? 2 : 1;
  if (cluster > 1 && window == 0 && kRows == 16)
    for (unsigned size : {2, 4, 8}) {
      int clusters = 0;
      attr[1].val.clusterDim.x = size;
      CUDA_CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
      report("exchange", "blocks that fit in clusters of " + std::to_string(size), clusters * size, "blocks");
    }
  attr[1].val.clusterDim.x = cluster;
  CUDA_CHECK(cudaMemset(a.packets, 0, 2 * kBlocks * 6 * 16 * 8));
  CUDA_CHECK(cudaMemset(a.flags, 0, kBlocks * 4));
  CUDA_CHECK(cudaMemset(a.counter, 0, kGroups * 128));
  CUDA_CHECK(cudaMemset(a.out, 0xff, kBlocks * kRows * 4));
  CUDA_CHECK(cudaMemset(a.streamed, 0, 8));
  a.window = window;
  const int launches = 7;
  const float ms = median_ms(
      [&](int) {
        CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, a));
        a.epoch += a.rounds;
      },
      launches);
  std::vector<uint32_t> out(kBlocks * kRows);
  CUDA_CHECK(cudaMemcpy(out.data(), a.out, out.size() * 4, cudaMemcpyDeviceToHost));
  if (kSync != Sync::kBare && out != expected(a.rounds, kRows)) std::printf("WRONG: ");
  std::string under;
  if (window) {
    unsigned long long bytes;
    CUDA_CHECK(cudaMemcpy(&bytes, a.streamed, 8, cudaMemcpyDeviceToHost));
    char text[80];
    std::snprintf(text, sizeof text, ", beside %d KiB per SM in flight (%.2f TB/s)", window * 16,
                  bytes / (launches + 2.0) / ms / 1e9);
    under = text;
  }
  report("exchange", name + under, ms * 1e3 / a.rounds, "us");
}

}  // namespace gates

int main() {
  using namespace gates;
  Args a{};
  a.stream_chunks = (size_t{4} << 30) / kSlot, a.rounds = 500;
  a.stream = device_zeros<char>(a.stream_chunks * kSlot);
  a.packets = device_zeros<uint4>(2 * kBlocks * 6 * 8);
  a.counter = device_zeros<uint32_t>(kGroups * 32);
  a.flags = device_zeros<uint32_t>(kBlocks);
  a.out = device_zeros<uint32_t>(kBlocks * 16);
  a.streamed = device_zeros<unsigned long long>(1);
  for (int window : {0, 3, 10}) {
    measure<Sync::kBare, 16>("release/acquire counter alone, no data", a, window);
    if (window == 0) measure<Sync::kGrid, 16>("cooperative groups barrier, then loads", a, window);
    measure<Sync::kAtomic, 16>("atomic counter, fences, then loads", a, window);
    measure<Sync::kCounter, 16>("release/acquire counter, then loads", a, window);
    measure<Sync::kCounters, 16>("8 release/acquire counters, then loads", a, window);
    measure<Sync::kFlags, 16>("flag per block, then loads", a, window);
    measure<Sync::kPacket, 16>("packets of 16 words a block", a, window);
    measure<Sync::kPacket, 16, 2>("packets of 16 words a block, 2 copies", a, window);
    measure<Sync::kPacket, 16, 4>("packets of 16 words a block, 4 copies", a, window);
    measure<Sync::kPacket, 8>("packets of 8 words a block", a, window);
    measure<Sync::kPacket, 8, 4>("packets of 8 words a block, 4 copies", a, window);
    measure<Sync::kPacket, 8, 8>("packets of 8 words a block, 8 copies", a, window);
    measure<Sync::kClusterPacket, 16>("packets of 16 words, polled once per cluster of 2", a, window);
    measure<Sync::kClusterPacket, 8, 4>("packets of 8 words, 4 copies, polled once per cluster of 2", a, window);
  }
  return 0;
}
