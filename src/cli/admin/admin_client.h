// Asks the HTTP API of a broker, one request after the other, over one connection. Blocking; one
// thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace geminga::admin_cli {

struct Answer {
  unsigned status = 0;
  std::string content_type;
  std::string body;
  // Those whose name begins with "X-Pulsar", the names in lower case.
  std::vector<std::pair<std::string, std::string>> headers;

  // Empty if there is none.
  std::string header(std::string_view name) const;

  bool ok() const { return status >= 200 && status < 300; }
  // What the broker says about a refusal: the member `reason`, or the body.
  std::string reason() const;
};

struct ClientOptions {
  std::string url = "http://localhost:8080";
  std::string token;  // sent as "Authorization: Bearer"; never printed
  int timeout_s = 60;
};

class AdminClient {
 public:
  // InvalidArgument for an address that is none, or not served (https).
  static Result<std::unique_ptr<AdminClient>> make(ClientOptions options);
  ~AdminClient();

  // `body` empty: none is sent. `content_type` matters only with a body. Errors: Io (nobody there,
  // the connection broke, too large an answer); any status is an Answer.
  Result<Answer> ask(std::string_view method, const std::string& target,
                     const std::string& body = {},
                     std::string_view content_type = "application/json");
  // The same, and a refusal is an error: its text is the broker's reason.
  Result<Answer> must(std::string_view method, const std::string& target,
                      const std::string& body = {},
                      std::string_view content_type = "application/json");

 private:
  struct Connection;
  explicit AdminClient(ClientOptions options);

  ClientOptions options_;
  std::string host_, port_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace geminga::admin_cli
