#include "server/http_router.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/log.h"

namespace geminga {

struct HttpRouter::Node {
  std::map<std::string, std::unique_ptr<Node>, std::less<>> literal;
  std::unique_ptr<Node> any;   // {name}
  std::unique_ptr<Node> rest;  // {name...}
  std::vector<const Route*> routes;
};

struct HttpRouter::Match {
  const Route* route = nullptr;
  std::vector<HttpMethod> allowed;  // of patterns that fit but lack the method
};

namespace {

std::vector<std::string_view> split(std::string_view pattern) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 1; at <= pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', at), pattern.size());
    if (end > at) parts.push_back(pattern.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool is_rest(std::string_view part) { return part.ends_with("...}"); }
bool is_any(std::string_view part) { return part.starts_with('{') && !is_rest(part); }

void bind(const Route& route, HttpRequest& request) {
  request.params.clear();
  const auto parts = split(route.pattern);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    if (is_any(part)) {
      request.params.emplace_back(part.substr(1, part.size() - 2), request.segments[i]);
    } else if (is_rest(part)) {
      std::string joined = request.segments[i];
      for (std::size_t j = i + 1; j < request.segments.size(); ++j)
        joined += '/' + request.segments[j];
      request.params.emplace_back(part.substr(1, part.size() - 5), std::move(joined));
    }
  }
}

HttpResponse methods_of(const std::vector<HttpMethod>& allowed) {
  HttpResponse response;
  response.status = 200;
  response.content_type = "text/plain";
  const auto has = [&](HttpMethod method) {
    return std::find(allowed.begin(), allowed.end(), method) != allowed.end();
  };
  if (has(HttpMethod::Get)) response.body = "HEAD, ";
  for (const HttpMethod method :
       {HttpMethod::Get, HttpMethod::Post, HttpMethod::Put, HttpMethod::Delete}) {
    if (has(method)) response.body.append(to_string(method)).append(", ");
  }
  response.body += "OPTIONS";
  response.headers.emplace_back("Allow", response.body);
  return response;
}

// A reader that takes anything but JSON is told so rather than given JSON.
bool is_unacceptable(const HttpRequest& request, const HttpResponse& response) {
  const std::string_view accept = request.header("accept");
  if (request.method != HttpMethod::Get || accept.empty() ||
      response.content_type != "application/json") {
    return false;
  }
  for (const std::string_view type : {"json", "application/*", "*/*"}) {
    if (accept.find(type) != std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

HttpRouter::HttpRouter() : root_(std::make_unique<Node>()) {}
HttpRouter::~HttpRouter() = default;

void HttpRouter::add(Route route) {
  if (has(route.method, route.pattern)) {
    GM_LOG_ERROR("two routes for {} {}; this is a bug, stopping", to_string(route.method),
                 route.pattern);
    std::abort();
  }
  routes_.push_back(std::make_unique<Route>(std::move(route)));
  Node* node = root_.get();
  for (const std::string_view part : split(routes_.back()->pattern)) {
    std::unique_ptr<Node>* next = nullptr;
    if (is_rest(part)) {
      next = &node->rest;
    } else if (is_any(part)) {
      next = &node->any;
    } else {
      next = &node->literal[std::string(part)];
    }
    if (!*next) *next = std::make_unique<Node>();
    node = next->get();
  }
  node->routes.push_back(routes_.back().get());
}

void HttpRouter::get(std::string pattern, std::string summary, HttpHandler handler) {
  add({HttpMethod::Get, std::move(pattern), std::move(summary), std::move(handler)});
}
void HttpRouter::post(std::string pattern, std::string summary, HttpHandler handler) {
  add({HttpMethod::Post, std::move(pattern), std::move(summary), std::move(handler)});
}
void HttpRouter::put(std::string pattern, std::string summary, HttpHandler handler) {
  add({HttpMethod::Put, std::move(pattern), std::move(summary), std::move(handler)});
}
void HttpRouter::del(std::string pattern, std::string summary, HttpHandler handler) {
  add({HttpMethod::Delete, std::move(pattern), std::move(summary), std::move(handler)});
}

bool HttpRouter::has(HttpMethod method, std::string_view pattern) const {
  const Node* node = root_.get();
  for (const std::string_view part : split(pattern)) {
    const Node* next = nullptr;
    if (is_rest(part)) {
      next = node->rest.get();
    } else if (is_any(part)) {
      next = node->any.get();
    } else if (const auto found = node->literal.find(part); found != node->literal.end()) {
      next = found->second.get();
    }
    if (next == nullptr) return false;
    node = next;
  }
  for (const Route* route : node->routes) {
    if (route->method == method) return true;
  }
  return false;
}

void HttpRouter::find(const Node& node, const HttpRequest& request, std::size_t at,
                      HttpMethod method, Match& match) {
  const auto take = [&](const Node& end) {
    for (const Route* route : end.routes) {
      if (match.route == nullptr && route->method == method) match.route = route;
      match.allowed.push_back(route->method);
    }
  };
  if (at == request.segments.size()) {
    take(node);
    return;
  }
  if (const auto found = node.literal.find(request.segments[at]); found != node.literal.end()) {
    find(*found->second, request, at + 1, method, match);
    if (match.route != nullptr) return;
  }
  if (node.any) {
    find(*node.any, request, at + 1, method, match);
    if (match.route != nullptr) return;
  }
  if (node.rest) take(*node.rest);
}

Task<HttpResponse> HttpRouter::dispatch(HttpRequest& request) const {
  Match match;
  find(*root_, request, 0, request.method == HttpMethod::Head ? HttpMethod::Get : request.method,
       match);
  if (match.route == nullptr) {
    if (match.allowed.empty()) co_return server_page(request, 404);
    if (request.method == HttpMethod::Options) co_return methods_of(match.allowed);
    HttpResponse response = server_page(request, 405);
    std::string allow = "OPTIONS";
    for (const HttpMethod method : match.allowed) {
      if (allow.find(to_string(method)) == std::string::npos)
        allow.append(",").append(to_string(method));
      if (method == HttpMethod::Get && allow.find("HEAD") == std::string::npos) allow += ",HEAD";
    }
    response.headers.emplace_back("Allow", std::move(allow));
    co_return response;
  }
  bind(*match.route, request);
  Result<HttpResponse> result = co_await match.route->handler(request);
  if (result && is_unacceptable(request, *result)) co_return server_page(request, 406);
  if (result) co_return std::move(*result);
  co_return reason(result.status());
}

}  // namespace geminga
