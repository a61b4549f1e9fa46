// SPDX-License-Identifier: Apache-2.0
// What backends on host memory share: blocks are host memory, and operations run to the end before they return.
// Invariant: counters_ is complete whenever no operation runs.
#pragma once

#include <chrono>
#include <cstring>

#include "backend/backend.h"
#include "base/check.h"
#include "base/machine.h"
#include "core/random_bits.h"

namespace colibri {

class HostBackend : public Backend {
 public:
  bool on_host() const final { return true; }
  Device device() const final { return {cpu_name(), "", ""}; }
  Result<double> measure_read_bandwidth(std::size_t bytes) final {
    return colibri::measure_read_bandwidth(threads(), bytes);
  }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) final {
    return Buffer::allocate(bytes, purpose);
  }
  Result<Buffer> place(Buffer host, std::string_view) final { return host; }
  void zero(void* to, std::size_t bytes) final { std::memset(to, 0, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) final { std::memcpy(to, from, bytes); }
  void fill_random(const Matrix& matrix, std::uint64_t seed) final { random_bits::fill(matrix, seed); }
  Status prepare(const ModelSpec&, const StepLimits&) final { return {}; }
  void begin(const Batch&) final { counters_ = {}; }
  Rows finish(Rows rows) final { return rows; }
  StepCounters counters() const final { return counters_; }
  std::unique_ptr<CapturedStep> capture(const std::function<void()>&) final { return nullptr; }
  void replay(const CapturedStep&) final { CHECK(false); }

 protected:
  using Clock = std::chrono::steady_clock;
  void count_route(Clock::time_point start) {
    counters_.route_seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  StepCounters counters_;
};

}  // namespace colibri
