// SPDX-License-Identifier: Apache-2.0
// Plain writes of one short line; losing one to a closed terminal is nobody's error.
#include "base/progress.h"

#include <unistd.h>
#include <cstdio>
#include <utility>

namespace colibri {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr double kGiga = 1e9;

}  // namespace

Progress::Progress(std::string label)
    : label_(std::move(label)), enabled_(isatty(STDERR_FILENO) == 1), start_(Clock::now()), next_(start_ + kInterval) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::draw(std::uint64_t done, std::uint64_t total) {
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::fprintf(stderr, "\r%s\033[K", progress_line(label_, done, total, seconds).c_str());
  std::fflush(stderr);
}

std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  char text[128];
  std::snprintf(text, sizeof text, "  %3.0f%%  %.1f / %.1f GB  %.2f GB/s", share * 100,
                static_cast<double>(done) / kGiga, static_cast<double>(total) / kGiga, rate / kGiga);
  std::string line = label + text;
  if (rate > 0 && done < total) {
    std::snprintf(text, sizeof text, "  ETA %.0f s", static_cast<double>(total - done) / rate);
    line += text;
  }
  return line;
}

}  // namespace colibri
