// SPDX-License-Identifier: Apache-2.0
// The table of backends: the one place that knows which there are.
#include <array>

#include "backend/backend.h"
#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#ifdef COLIBRI_CUDA
#include "backend/cuda/cuda.h"
#endif

namespace colibri {
namespace {

constexpr int kMaxThreads = 1024;

struct Entry {
  std::string_view name;
  Result<std::unique_ptr<Backend>> (*make)(int threads);
};

Result<std::unique_ptr<Backend>> make_reference(int) { return {std::make_unique<ReferenceBackend>()}; }

Result<std::unique_ptr<Backend>> make_cpu(int threads) {
  if (threads == 0) threads = static_cast<int>(usable_cores().size());
  return {std::make_unique<cpu::CpuBackend>(threads)};
}

Result<std::unique_ptr<Backend>> make_cuda(int) {
#ifdef COLIBRI_CUDA
  return cuda::CudaBackend::create();
#else
  return Error{Exit::unavailable,
               "no usable GPU: this build has no CUDA backend (cmake --preset cuda makes one); use --device cpu"};
#endif
}

Result<std::unique_ptr<Backend>> make_auto(int threads) {
  auto gpu = make_cuda(threads);
  return gpu.ok() ? std::move(gpu) : make_cpu(threads);
}

constexpr std::array<Entry, 4> kBackends{
    {{"auto", make_auto}, {"cpu", make_cpu}, {"cuda", make_cuda}, {"reference", make_reference}}};

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(std::string_view name, int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    return Error{Exit::usage, "--threads: " + std::to_string(threads) + " is not between 0 (all cores) and " +
                                  std::to_string(kMaxThreads)};
  }
  for (const Entry& entry : kBackends) {
    if (entry.name == name) return entry.make(threads);
  }
  return Error{Exit::usage,
               "--device: unknown device '" + std::string(name) + "'; choose auto, cpu, cuda or reference"};
}

}  // namespace colibri
