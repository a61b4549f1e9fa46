// SPDX-License-Identifier: Apache-2.0
// spdlog's asynchronous logger, seen here alone. Its own policies are to block or to drop the oldest; we drop the new.
#include "base/log.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <chrono>
#include <ctime>

namespace colibri {
namespace {

constexpr std::size_t kQueueLines = 4096;  // about 450 bytes each for short lines

struct Log {
  std::shared_ptr<spdlog::details::thread_pool> pool =
      std::make_shared<spdlog::details::thread_pool>(kQueueLines, std::size_t{1});
  std::shared_ptr<spdlog::async_logger> logger =
      std::make_shared<spdlog::async_logger>("colibri", std::make_shared<spdlog::sinks::stderr_sink_mt>(), pool,
                                             spdlog::async_overflow_policy::overrun_oldest);
  std::atomic<std::uint64_t> dropped{0};

  Log() { logger->set_pattern("%v"); }
  ~Log() { pool.reset(); }  // writes what is queued; its thread ends before the logger does
};

Log& the_log() {
  static Log log;
  return log;
}

void write_line(LogLevel level, std::string_view line) {
  Log& log = the_log();
  if (log.pool->queue_size() >= kQueueLines) {
    log.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  log.logger->log(level == LogLevel::info      ? spdlog::level::info
                  : level == LogLevel::warning ? spdlog::level::warn
                                               : spdlog::level::err,
                  spdlog::string_view_t(line.data(), line.size()));
}

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof text, "%FT%T", &utc);
  return std::string(text, length) + fmt::format(".{:03}Z", milliseconds);
}

}  // namespace

void log_event(LogLevel level, std::string_view event, Json::Object fields) {
  constexpr std::string_view names[] = {"info", "warning", "error"};
  Json::Object whole{{"ts", timestamp()}, {"lvl", names[static_cast<int>(level)]}, {"ev", event}};
  const std::size_t own = whole.size();
  for (Json::Member& field : fields) whole.push_back(std::move(field));
  std::string line = write_json(whole);
  while (line.size() > kLogLineBytes && whole.size() > own) {  // still one JSON document: the last fields go
    whole.pop_back();
    line = write_json(whole);
  }
  write_line(level, line);
}

void log_line(LogLevel level, std::string line) {
  if (line.size() > kLogLineBytes) line.resize(kLogLineBytes);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  write_line(level, line);
}

std::uint64_t log_dropped() {
  Log& log = the_log();
  return log.dropped.load(std::memory_order_relaxed) + log.pool->overrun_counter();
}

}  // namespace colibri
