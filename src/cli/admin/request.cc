#include "cli/admin/request.h"

#include <cctype>
#include <optional>

#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

// RFC 3986: what need not be escaped in a segment or a query value. Slashes only in names.
std::string encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kPlain = "-_.~:@!$'()*,;";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || kPlain.find(c) != std::string_view::npos ||
        (keep_slashes && c == '/')) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string text_of(const json::value& value) {
  if (value.is_string()) return std::string(value.get_string());
  if (value.is_array()) {
    std::string joined;
    for (const auto& each : value.get_array())
      joined += (joined.empty() ? "" : ",") + text_of(each);
    return joined;
  }
  return to_json(value);
}

// Replaces "$name" throughout; false: the value is missing.
bool fill(json::value& place, const json::object& values) {
  if (place.is_string() && place.get_string().starts_with("$")) {
    const json::value* found = values.if_contains(std::string_view(place.get_string()).substr(1));
    if (found == nullptr) return false;
    place = *found;
    return true;
  }
  if (place.is_array()) {
    for (json::value& each : place.get_array()) (void)fill(each, values);
  } else if (place.is_object()) {
    json::object filled;
    for (auto& member : place.get_object()) {
      json::value value = member.value();
      if (fill(value, values)) filled[member.key()] = std::move(value);
    }
    place = std::move(filled);
  }
  return true;
}

}  // namespace

std::string make_target(std::string_view pattern, const json::object& values) {
  std::string target;
  char before_query = '?';
  const std::size_t query = pattern.find('?', 0) == std::string_view::npos
                                ? pattern.size()
                                : pattern.find("?") /* of the query; "{x?}" comes behind it */;
  std::string_view path = pattern.substr(0, query);
  while (!path.empty()) {
    const std::size_t open = path.find('{');
    target += path.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = path.find('}', open);
    const std::string_view name = path.substr(open + 1, close - open - 1);
    const json::value* value = values.if_contains(name);
    const std::string text = value == nullptr ? std::string() : text_of(*value);
    // A topic's local part is encoded already.
    target +=
        name == "topic" ? text : encode(text, name == "namespace" || name == "tenant-cluster");
    path.remove_prefix(close + 1);
  }
  std::string_view rest = query < pattern.size() ? pattern.substr(query + 1) : std::string_view();
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const std::size_t equals = pair.find('=');
    std::string_view value = pair.substr(equals + 1);
    std::string text(value);
    if (value.starts_with('{')) {
      value = value.substr(1, value.size() - 2);
      const bool only_true = value.ends_with('?');
      if (only_true) value.remove_suffix(1);
      const json::value* found = values.if_contains(value);
      if (found == nullptr || (only_true && found->is_bool() && !found->get_bool())) continue;
      text = encode(text_of(*found), false);
    }
    target += before_query + std::string(pair.substr(0, equals)) + "=" + text;
    before_query = '&';
  }
  return target;
}

Request make_request(const Command& command, const json::object& values) {
  Request request;
  const std::size_t space = command.request.find(' ');
  request.method = command.request.substr(0, space);
  request.target = make_target(command.request.substr(space + 1), values);
  if (!command.body.empty()) {
    auto body = parse_json(command.body);
    if (body && fill(*body, values)) request.body = to_json(*body);
  }
  return request;
}

}  // namespace geminga::admin_cli
