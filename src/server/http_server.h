// The HTTP side of a process: accepts connections, reads requests, hands them to the router, writes
// the answers.
//
// Shard 0 accepts; every connection then belongs to one shard, in turn, and is served there by one
// coroutine, one request after another (keep-alive, pipelining in order). What a client may cost is
// limited before it costs: header and body size, time for each of them and for taking the answer,
// connections, requests at once; bodies draw from the memory budget. Over a limit the client gets
// its status (431, 413, 503) and a counter moves.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "runtime/runtime.h"
#include "server/http_router.h"

namespace geminga {

struct HttpServerOptions {
  std::string bind_address = "0.0.0.0";
  unsigned port = 8080;          // 0: any free one, see HttpServer::port()
  std::vector<unsigned> shards;  // that serve; empty: all
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = 8 << 20;
  std::size_t max_connections = 2048;  // Pulsar's maxHttpServerConnections
  std::size_t max_requests = 1024;     // at once; Pulsar's maxConcurrentHttpRequests
  Millis idle_timeout{90'000};         // until a request begins; longer than clients keep theirs
  Millis header_timeout{10'000};       // from its first byte to the end of the header
  Millis body_timeout{60'000};
  Millis write_timeout{60'000};  // for each piece of the answer
  Millis stop_timeout{5'000};    // how long stop() waits for requests that run
};

// Since the start of the server.
struct HttpCounters {
  std::uint64_t connections = 0;
  std::uint64_t connections_refused = 0;  // over max_connections
  std::uint64_t requests = 0;
  std::uint64_t requests_refused = 0;    // over max_requests or out of memory budget
  std::uint64_t requests_malformed = 0;  // not HTTP, or over a size limit
  std::uint64_t timeouts = 0;
  std::uint64_t failures = 0;  // answers of 500 and above
};

class HttpServer {
 public:
  // Both outlive the server.
  HttpServer(Runtime& runtime, const HttpRouter& router);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Listens and serves. On shard 0, once. InvalidArgument: no address; Io: it cannot be listened on
  // (in use, ...).
  Task<Status> start(HttpServerOptions options);
  // Takes no new connections, lets running requests end, closes. On shard 0; idempotent.
  Task<void> stop();

  // Where it listens, 0 before start(). Any thread.
  unsigned port() const { return port_.load(std::memory_order_relaxed); }
  HttpCounters counters() const;

 private:
  struct Side;        // what lives on one shard
  struct Connection;  // on its coroutine's frame
  struct Listener;

  Task<void> accept_loop();
  static Task<void> serve(const HttpRouter& router, Runtime& runtime,
                          const HttpServerOptions& options, Side& side,
                          std::unique_ptr<Connection> connection);

  Runtime& runtime_;
  const HttpRouter& router_;
  HttpServerOptions options_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::atomic<unsigned> port_{0};
};

}  // namespace geminga
