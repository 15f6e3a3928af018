#include "base/iso_time.h"

#include <fmt/format.h>

#include <ctime>

namespace geminga {

std::string iso_time(std::int64_t ms) {
  std::int64_t seconds = ms / 1000;
  std::int64_t rest = ms % 1000;
  if (rest < 0) {
    rest += 1000;
    --seconds;
  }
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::string out =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                  parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (rest != 0) {
    out += fmt::format(".{:03}", rest);
    while (out.back() == '0') out.pop_back();
  }
  out += 'Z';
  return out;
}

}  // namespace geminga
