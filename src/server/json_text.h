// JSON as Pulsar writes it: doubles always with a decimal point or exponent as Java prints them
// ("0.0"), no spaces, members in the order they were put. Any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace geminga {

// `text` as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
void append_json(std::string& out, const boost::json::value& value);
std::string to_json(const boost::json::value& value);

// InvalidArgument with the place and the reason. Depth is limited.
Result<boost::json::value> parse_json(std::string_view text);

}  // namespace geminga
