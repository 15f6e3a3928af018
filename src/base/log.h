// Logging: one line an event on standard error, `2026-01-31T12:00:00.000Z LEVEL text`.
// GM_LOG_INFO("topic {} loaded in {} ms", name, ms): fmt syntax, arguments evaluated only if the
// level is on. Never on a path that runs once a message. Any thread.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <string_view>

namespace geminga {

enum class LogLevel : int { Trace, Debug, Info, Warn, Error, Off };

namespace log_internal {
extern std::atomic<int> threshold;
void write(LogLevel level, std::string_view text);
}  // namespace log_internal

void set_log_level(LogLevel level);
inline bool log_enabled(LogLevel level) {
  return static_cast<int>(level) >= log_internal::threshold.load(std::memory_order_relaxed);
}

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  log_internal::write(level, fmt::format(format, std::forward<Args>(args)...));
}

#define GM_LOG_AT(level, ...)                                              \
  do {                                                                     \
    if (::geminga::log_enabled(level)) ::geminga::log(level, __VA_ARGS__); \
  } while (false)
#define GM_LOG_DEBUG(...) GM_LOG_AT(::geminga::LogLevel::Debug, __VA_ARGS__)
#define GM_LOG_INFO(...) GM_LOG_AT(::geminga::LogLevel::Info, __VA_ARGS__)
#define GM_LOG_WARN(...) GM_LOG_AT(::geminga::LogLevel::Warn, __VA_ARGS__)
#define GM_LOG_ERROR(...) GM_LOG_AT(::geminga::LogLevel::Error, __VA_ARGS__)

}  // namespace geminga
