// `pulsar://host:port[,host:port...]`: where a broker is. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace geminga::client {

struct HostPort {
  std::string host;
  std::uint16_t port = 6650;
  friend bool operator==(const HostPort&, const HostPort&) = default;
  std::string to_string() const;
};

// At least one host. The port may be left out (6650); an IPv6 address stands in brackets. TLS
// (`pulsar+ssl://`) is Unsupported, anything else that is not `pulsar://` InvalidArgument.
Result<std::vector<HostPort>> parse_service_url(std::string_view url);

// `x` and `tenant/namespace/x` in full; a name with a domain stays as it is. What is wrong with a
// name is for the broker to say.
std::string full_topic_name(std::string_view topic);

}  // namespace geminga::client
