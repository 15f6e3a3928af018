// One HTTP request as a value: what handlers see. Nothing here knows sockets.
//
// A request is read whole (its size is limited before memory is taken for it). Belongs to its
// connection, on the connection's shard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace geminga {

enum class HttpMethod : std::uint8_t { Get, Head, Post, Put, Delete, Options, Other };
std::string_view to_string(HttpMethod method);

struct HttpRequest {
  HttpMethod method = HttpMethod::Get;
  std::string target;  // as received, "/admin/v2/persistent/t/n/a%2Fb/stats?x=1"
  std::string path;    // the part before '?', not decoded
  std::vector<std::string>
      segments;  // of the path, decoded; an empty last one (trailing slash) is dropped
  std::vector<std::pair<std::string, std::string>> query;    // decoded, in order
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::string remote_address;
  // What the route's pattern named, set by the router.
  std::vector<std::pair<std::string_view, std::string>> params;

  // "" if there is none.
  std::string_view header(std::string_view lower_case_name) const;
  std::optional<std::string_view> query_value(std::string_view name) const;
  // As Pulsar's web server reads a boolean: "true" in any case is true, any other text is false.
  bool query_flag(std::string_view name, bool if_absent) const;
  // Empty: absent or no integer.
  std::optional<std::int64_t> query_number(std::string_view name) const;
  // The value of {name} in the route's pattern; "" if the pattern has none of that name.
  const std::string& param(std::string_view name) const;
};

// Splits and decodes `target` into path, segments and query. InvalidArgument: not absolute, a
// broken escape, an empty segment in the middle, too many parts.
Status parse_target(std::string_view target, HttpRequest& request);

}  // namespace geminga
