// The table of routes: from it requests are dispatched, and what an API description needs is read.
//
// A pattern is a path whose segments are literal or {name} (one segment) or, last only, {name...}
// (one or more segments, joined by '/'). Where several patterns fit, a literal segment beats
// {name}, and that {name...}, from left to right; if the better pattern has no such method the next
// one is tried. Filled once before serving; then read-only, any shard.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/task.h"
#include "server/http_message.h"

namespace geminga {

// Handlers get a request that lives until their answer is sent. A failed Status becomes {"reason":
// ...}.
using HttpHandler = std::function<Task<Result<HttpResponse>>(HttpRequest&)>;

struct Route {
  HttpMethod method = HttpMethod::Get;
  std::string pattern;
  std::string summary;
  HttpHandler handler;
  bool built = true;  // false: answers 501
};

class HttpRouter {
 public:
  HttpRouter();
  ~HttpRouter();
  HttpRouter(const HttpRouter&) = delete;
  HttpRouter& operator=(const HttpRouter&) = delete;

  // A second route of the same method and pattern is a programming error (aborts).
  void add(Route route);
  void get(std::string pattern, std::string summary, HttpHandler handler);
  void post(std::string pattern, std::string summary, HttpHandler handler);
  void put(std::string pattern, std::string summary, HttpHandler handler);
  void del(std::string pattern, std::string summary, HttpHandler handler);
  bool has(HttpMethod method, std::string_view pattern) const;

  // Finds the handler, runs it and turns its errors into answers. HEAD runs the GET handler.
  Task<HttpResponse> dispatch(HttpRequest& request) const;

  std::span<const std::unique_ptr<Route>> routes() const { return routes_; }

 private:
  struct Node;
  struct Match;
  static void find(const Node& node, const HttpRequest& request, std::size_t at, HttpMethod method,
                   Match& match);

  std::vector<std::unique_ptr<Route>> routes_;
  std::unique_ptr<Node> root_;
};

}  // namespace geminga
