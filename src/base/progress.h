// SPDX-License-Identifier: Apache-2.0
// A progress line for long reads: "loading  42%  12.3 / 29.1 GB  1.31 GB/s  ETA 13 s", redrawn in place on stderr.
// Invariant: nothing is ever written unless stderr is a terminal, and the line is wiped at the end. One thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace colibri {

class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap to call often: draws ten times a second at most.
  void update(std::uint64_t done, std::uint64_t total) {
    if (enabled_) draw(done, total);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void draw(std::uint64_t done, std::uint64_t total);

  std::string label_;
  bool enabled_ = false;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point next_;
};

/// The text of the line, `seconds` after the start.
std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace colibri
