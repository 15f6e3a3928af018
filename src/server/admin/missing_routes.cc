// What Pulsar's API has and no resource here has registered: 501 that names the endpoint, so that a
// tool's user sees what is missing instead of wondering about a 404. Functions answer as a Pulsar
// without a functions worker does.
#include <string_view>

#include "server/admin/admin.h"

namespace geminga {

namespace {

struct Endpoint {
  HttpMethod method;
  const char* pattern;
};
#define GM_ENDPOINT(method, pattern) {HttpMethod::method, pattern},
constexpr Endpoint kEndpoints[] = {
#include "server/admin/endpoints.inc"
};
#undef GM_ENDPOINT

bool needs_worker(std::string_view pattern) {
  for (const std::string_view part :
       {"/functions/", "/source/", "/sources/", "/sink/", "/sinks/", "/worker"}) {
    if (pattern.find(part) != std::string_view::npos) return true;
  }
  return false;
}

Answer no_worker(HttpRequest&) {
  co_return Status::Conflict(
      "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false");
}

Answer not_built(HttpMethod method, std::string pattern) {
  std::string what =
      std::string(to_string(method)) + ' ' + pattern + " is not available in Geminga yet";
  if (pattern.find("/packages/") != std::string::npos)
    what += ": packages are for functions and connectors, which have no worker here";
  if (pattern.find("ffload") != std::string::npos) what += ": no offload driver is built";
  co_return Status::Unsupported(what);
}

void add_one(HttpRouter& router, HttpMethod method, const std::string& pattern) {
  if (router.has(method, pattern)) return;
  Route route;
  route.method = method;
  route.pattern = pattern;
  route.summary = "Not available yet";
  route.built = false;
  if (needs_worker(pattern)) {
    route.handler = no_worker;
  } else {
    route.handler = [method, pattern](HttpRequest&) { return not_built(method, pattern); };
  }
  router.add(std::move(route));
}

}  // namespace

void add_missing_routes(HttpRouter& router) {
  constexpr std::string_view kDomain = ":domain";
  for (const Endpoint& endpoint : kEndpoints) {
    const std::string pattern = endpoint.pattern;
    const std::size_t at = pattern.find(kDomain);
    if (at == std::string::npos) {
      add_one(router, endpoint.method, pattern);
    } else {
      add_one(router, endpoint.method,
              std::string(pattern).replace(at, kDomain.size(), "persistent"));
      add_one(router, endpoint.method,
              std::string(pattern).replace(at, kDomain.size(), "non-persistent"));
    }
  }
}

}  // namespace geminga
