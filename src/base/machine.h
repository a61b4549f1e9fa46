// SPDX-License-Identifier: Apache-2.0
// What this machine is and how fast it reads memory: the limit that speeds are shown beside.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace colibri {

/// Model name from /proc/cpuinfo, or "unknown".
std::string cpu_name();

/// Best bandwidth in bytes per second that `threads` threads reach together, reading `bytes` of huge pages several
/// times. Larger than the last-level cache measures memory; as large as a model measures what that model's weights can
/// get.
Result<double> measure_read_bandwidth(int threads, std::size_t bytes);

}  // namespace colibri
