// The answer to an HTTP request, as a value: a short body, or a stream of pieces made while it is
// sent; and the answers that Pulsar's admin API has. Belongs to the connection, on its shard.
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
#include "server/http_request.h"

namespace geminga {

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
