// Values as pulsar-admin takes them. Pure functions; InvalidArgument says what is allowed.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace geminga::admin_cli {

// "10", "-1", "16k", "10M", "2G", "1T" (case does not matter, a trailing b is allowed): bytes.
Result<std::int64_t> parse_size(std::string_view text);
// "30", "-1", "10s", "5m", "2h", "1d", "1w", "1y": seconds.
Result<std::int64_t> parse_duration(std::string_view text);
// "latest", "earliest" or "LEDGER:ENTRY", as the JSON of a message id.
Result<boost::json::object> parse_message_id(std::string_view text);
// "10:0", not in the words.
Result<boost::json::object> parse_position(std::string_view text);
// "2026-05-06T07:08:09Z", with fractions or an offset: milliseconds since 1970.
Result<std::int64_t> parse_date_time(std::string_view text);

}  // namespace geminga::admin_cli
