// SPDX-License-Identifier: Apache-2.0
// The log: one line per event, written to standard error by a thread of its own.
// Invariant: no caller ever waits for the disk or the terminal. A full queue drops the new line and counts it; one
// event is one line of at most kLogLineBytes, whatever text it carries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace colibri {

inline constexpr std::size_t kLogLineBytes = 2048;

enum class LogLevel { info, warning, error };

/// One JSON line: {"ts":...,"lvl":...,"ev":event, fields...}. Any thread.
void log_event(LogLevel level, std::string_view event, Json::Object fields = {});

/// A line for people, as it is but for control characters. Any thread.
void log_line(LogLevel level, std::string line);

/// Lines lost because the queue was full.
std::uint64_t log_dropped();

}  // namespace colibri
