#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace geminga {

namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::Trace: return spdlog::level::trace;
    case LogLevel::Debug: return spdlog::level::debug;
    case LogLevel::Info: return spdlog::level::info;
    case LogLevel::Warn: return spdlog::level::warn;
    case LogLevel::Error: return spdlog::level::err;
    case LogLevel::Off: return spdlog::level::off;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  // Leaked on purpose: threads may log while static objects are destroyed.
  static spdlog::logger* instance = [] {
    auto* made = new spdlog::logger("geminga", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%L%$ %v", spdlog::pattern_time_type::utc);
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::warn);
    return made;
  }();
  return *instance;
}

}  // namespace

std::atomic<int> log_internal::threshold{static_cast<int>(LogLevel::Info)};

void log_internal::write(LogLevel level, std::string_view text) {
  logger().log(to_spdlog(level), text);
}

void set_log_level(LogLevel level) {
  log_internal::threshold.store(static_cast<int>(level), std::memory_order_relaxed);
}

}  // namespace geminga
