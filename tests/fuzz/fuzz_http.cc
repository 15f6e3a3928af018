// HTTP targets and JSON bodies as a client may send them; what is written back is parsed again.
#include <boost/json/value.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/http_request.h"
#include "server/json_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace geminga;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  HttpRequest request;
  if (parse_target(text.substr(0, line), request)) {
    for (const auto& [name, value] : request.query) {
      (void)request.query_flag(name, true);
      (void)request.query_number(name);
    }
  }
  if (line == std::string_view::npos) return 0;
  const auto value = parse_json(text.substr(line + 1));
  if (!value) return 0;
  const auto again = parse_json(to_json(*value));
  if (!again) std::abort();
  return 0;
}
