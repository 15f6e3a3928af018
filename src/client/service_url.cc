#include "client/service_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace geminga::client {

std::string HostPort::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

namespace {

Result<HostPort> parse_host(std::string_view text, std::string_view url) {
  const auto wrong = [&](std::string_view what) {
    return Status::InvalidArgument(
        fmt::format("service URL '{}': {}; write it as pulsar://host:6650", url, what));
  };
  HostPort out;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong("'[' without ']'");
    out.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    out.host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (out.host.empty()) return wrong("a host is missing");
  if (port.empty()) return out;
  if (!port.starts_with(':')) return wrong("something other than a port follows the host");
  const char* end = port.data() + port.size();
  const auto parsed = std::from_chars(port.data() + 1, end, out.port);
  if (parsed.ec != std::errc() || parsed.ptr != end || out.port == 0) {
    return wrong("the port is not a number from 1 to 65535");
  }
  return out;
}

}  // namespace

Result<std::vector<HostPort>> parse_service_url(std::string_view url) {
  constexpr std::string_view kScheme = "pulsar://";
  if (url.starts_with("pulsar+ssl://")) {
    return Status::Unsupported(
        fmt::format("service URL '{}': this client does not speak TLS yet", url));
  }
  if (!url.starts_with(kScheme)) {
    return Status::InvalidArgument(fmt::format(
        "service URL '{}' does not start with pulsar://; write it as pulsar://host:6650", url));
  }
  std::string_view rest = url.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  std::vector<HostPort> hosts;
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    GM_ASSIGN_OR_RETURN(HostPort host, parse_host(rest.substr(0, comma), url));
    hosts.push_back(std::move(host));
    if (comma == rest.size()) return hosts;
    rest.remove_prefix(comma + 1);
  }
}

std::string full_topic_name(std::string_view topic) {
  if (topic.find("://") != std::string_view::npos) return std::string(topic);
  const auto slashes = std::count(topic.begin(), topic.end(), '/');
  if (slashes == 0) return fmt::format("persistent://public/default/{}", topic);
  if (slashes == 2) return fmt::format("persistent://{}", topic);
  return std::string(topic);
}

}  // namespace geminga::client
