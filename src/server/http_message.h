// One HTTP request and its answer, as values: what handlers see. Nothing here knows sockets.
//
// A request is read whole (its size is limited before memory is taken for it); an answer is a short
// body, or a stream of pieces made while it is sent. Belong to the connection, on its shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/task.h"

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

// A body made while it is sent.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  // Puts the next piece into `piece` (given empty); false when there is none left.
  virtual Task<bool> next(std::string& piece) = 0;
};

struct HttpResponse {
  unsigned status = 204;
  std::string content_type;  // "": no such header
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::unique_ptr<BodyStream> stream;  // instead of body
};

// The answers of Pulsar's admin API (reference: errors).
HttpResponse no_content();  // 204
HttpResponse ok_empty();    // 200 without body or content type: a policy that is not set
HttpResponse json_text(std::string body,
                       unsigned status = 200);  // body is JSON already (or Pulsar says so)
HttpResponse reason(unsigned status, std::string_view text);  // {"reason": text}
HttpResponse reason(const Status& status);                    // with the status of base/errors.inc
// The web server's own page (unknown path, wrong method or type): by Accept HTML, JSON or text;
// empty for PUT, DELETE and their like.
HttpResponse server_page(const HttpRequest& request, unsigned status, std::string_view text = {});
std::string_view http_status_text(unsigned status);

}  // namespace geminga
