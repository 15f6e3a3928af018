#include "cli/admin/units.h"

#include <charconv>
#include <cstdio>
#include <ctime>
#include <limits>
#include <string>

namespace geminga::admin_cli {

namespace {

// The number at the beginning of `text`, which is cut off.
Result<std::int64_t> take_number(std::string_view& text, std::string_view whole,
                                 std::string_view example) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return Status::InvalidArgument("'" + std::string(whole) + "' is no value like " +
                                   std::string(example));
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

Result<std::int64_t> scaled(std::int64_t number, std::int64_t by, std::string_view whole) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(number, by, &result))
    return Status::InvalidArgument("'" + std::string(whole) + "' is too large");
  return result;
}

boost::json::object message_id(std::int64_t ledger, std::int64_t entry) {
  return {{"ledgerId", ledger}, {"entryId", entry}, {"partitionIndex", -1}, {"batchIndex", -1}};
}

}  // namespace

Result<std::int64_t> parse_size(std::string_view text) {
  constexpr std::string_view kExample = "100, 16k, 10M, 2G or 1T";
  std::string_view rest = text;
  GM_ASSIGN_OR_RETURN(const std::int64_t number, take_number(rest, text, kExample));
  if (rest.size() == 2 && (rest[1] == 'b' || rest[1] == 'B')) rest.remove_suffix(1);
  if (rest.empty()) return number;
  const std::size_t power = std::string_view("kmgt").find(static_cast<char>(rest[0] | 0x20));
  if (rest.size() != 1 || power == std::string_view::npos) {
    return Status::InvalidArgument("'" + std::string(text) + "' is no size like " +
                                   std::string(kExample));
  }
  return scaled(number, std::int64_t{1} << (10 * (power + 1)), text);
}

Result<std::int64_t> parse_duration(std::string_view text) {
  constexpr std::string_view kExample = "30s, 5m, 2h, 1d or 1w";
  std::string_view rest = text;
  GM_ASSIGN_OR_RETURN(const std::int64_t number, take_number(rest, text, kExample));
  if (rest.empty()) return number;
  std::int64_t unit = 0;
  switch (rest[0] | 0x20) {
    case 's': unit = 1; break;
    case 'm': unit = 60; break;
    case 'h': unit = 3600; break;
    case 'd': unit = 24 * 3600; break;
    case 'w': unit = 7 * 24 * 3600; break;
    case 'y': unit = std::int64_t{365} * 24 * 3600; break;
    default: break;
  }
  if (rest.size() != 1 || unit == 0) {
    return Status::InvalidArgument("'" + std::string(text) + "' is no time like " +
                                   std::string(kExample));
  }
  return scaled(number, unit, text);
}

Result<boost::json::object> parse_position(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    std::string_view ledger = text.substr(0, colon);
    std::string_view entry = text.substr(colon + 1);
    const auto first = take_number(ledger, text, "10:0");
    const auto second = take_number(entry, text, "10:0");
    if (first && second && ledger.empty() && entry.empty()) return message_id(*first, *second);
  }
  return Status::InvalidArgument("'" + std::string(text) +
                                 "' is no message id: it has the form LEDGER:ENTRY");
}

Result<boost::json::object> parse_message_id(std::string_view text) {
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  if (text == "latest") return message_id(kEnd, kEnd);
  if (text == "earliest") return message_id(-1, -1);
  auto position = parse_position(text);
  if (!position) {
    return Status::InvalidArgument("'" + std::string(text) +
                                   "' is no message id: it is latest, earliest or LEDGER:ENTRY");
  }
  return position;
}

Result<std::int64_t> parse_date_time(std::string_view text) {
  const std::string copy(text);
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  double second = 0;
  char zone[8] = {};
  const int got = std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%9lf%7s", &year, &month, &day,
                              &hour, &minute, &second, zone);
  const Status wrong = Status::InvalidArgument(
      "'" + copy + "' is no date and time like 2026-05-06T07:08:09Z or 2026-05-06T07:08:09+02:00");
  if (got != 7 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
      second < 0 || second >= 61) {
    return wrong;
  }
  int zone_hours = 0;
  int zone_minutes = 0;
  if (std::string_view(zone) != "Z") {
    if ((zone[0] != '+' && zone[0] != '-') ||
        std::sscanf(zone + 1, "%2d:%2d", &zone_hours, &zone_minutes) < 1) {
      return wrong;
    }
  }
  std::tm time{};
  time.tm_year = year - 1900;
  time.tm_mon = month - 1;
  time.tm_mday = day;
  time.tm_hour = hour;
  time.tm_min = minute;
  const std::int64_t seconds = timegm(&time);
  const std::int64_t offset =
      (std::int64_t{zone_hours} * 3600 + zone_minutes * 60) * (zone[0] == '-' ? -1 : 1);
  return (seconds - offset) * 1000 + static_cast<std::int64_t>(second * 1000);
}

}  // namespace geminga::admin_cli
