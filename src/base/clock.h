// Time. Milliseconds since 1970 for what is stored or shown; monotonic nanoseconds for durations.
// Any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace geminga {

using Millis = std::chrono::milliseconds;

inline std::int64_t now_ms() {
  return std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}
inline std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace geminga
