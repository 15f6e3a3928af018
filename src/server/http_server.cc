#include "server/http_server.h"

#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/log.h"

namespace geminga {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using ShardExecutor = asio::io_context::executor_type;
using Stream = beast::basic_stream<tcp, ShardExecutor>;
using Parser = http::request_parser<http::string_body>;
using Error = boost::system::error_code;

struct HttpServer::Connection {
  explicit Connection(asio::basic_stream_socket<tcp, ShardExecutor> socket)
      : stream(std::move(socket)) {}
  Stream stream;
  beast::flat_buffer buffer;
  std::string remote;
  bool idle = true;  // waits for a request
};

struct HttpServer::Side {
  Side(Shard& s, unsigned shards, const HttpServerOptions& options)
      : shard(s),
        max_connections(std::max<std::size_t>(1, options.max_connections / shards)),
        max_requests(std::max<std::size_t>(1, options.max_requests / shards)) {}

  Shard& shard;
  const std::size_t max_connections;
  const std::size_t max_requests;
  Gate gate;
  std::unordered_set<Connection*> connections;
  std::size_t running = 0;
  bool stopping = false;
  std::atomic<std::size_t> arriving{0};  // accepted by shard 0 and still on their way here

  // Written on the shard, read by counters().
  std::atomic<std::uint64_t> accepted{0}, connections_refused{0}, requests{0}, requests_refused{0},
      requests_malformed{0}, timeouts{0}, failures{0};
};

struct HttpServer::Listener {
  explicit Listener(Shard& shard) : acceptor(shard.io()) {}
  asio::basic_socket_acceptor<tcp, ShardExecutor> acceptor;
  Gate gate;
};

namespace {

auto into(Error& error) { return asio::redirect_error(asio::use_awaitable, error); }

void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// What a request's body takes of the memory budget. Small bodies are let in at any time, so that an
// operator can still act on a broker whose memory is full.
class BodyMemory {
 public:
  static constexpr std::size_t kStep = 64 << 10;

  explicit BodyMemory(MemoryBudget& budget) : budget_(budget) {}
  ~BodyMemory() {
    if (bytes_ != 0) budget_.give_back(MemoryUse::Connection, bytes_);
  }
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;

  // Makes room for `bytes` in all. False: the budget has no such room.
  bool reserve(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    const std::size_t more = (bytes - bytes_ + kStep - 1) / kStep * kStep;
    if (bytes_ == 0 && more == kStep) {
      budget_.take(MemoryUse::Connection, more);
    } else if (!budget_.try_take(MemoryUse::Connection, more)) {
      return false;
    }
    bytes_ += more;
    return true;
  }

 private:
  MemoryBudget& budget_;
  std::size_t bytes_ = 0;
};

HttpMethod method_of(http::verb verb) {
  switch (verb) {
    case http::verb::get: return HttpMethod::Get;
    case http::verb::head: return HttpMethod::Head;
    case http::verb::post: return HttpMethod::Post;
    case http::verb::put: return HttpMethod::Put;
    case http::verb::delete_: return HttpMethod::Delete;
    case http::verb::options: return HttpMethod::Options;
    default: return HttpMethod::Other;
  }
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

void take_head(const Parser& parser, HttpRequest& request) {
  const auto& message = parser.get();
  request.method = method_of(message.method());
  request.headers.clear();
  for (const auto& field : message) {
    request.headers.emplace_back(
        lower_case({field.name_string().data(), field.name_string().size()}),
        std::string(field.value()));
  }
}

// The answer to a request that could not be read; its connection is closed afterwards. Empty: no
// answer.
std::optional<HttpResponse> answer_to(const Error& error) {
  if (error == http::error::header_limit) return reason(431, "The request header is too large");
  if (error == http::error::body_limit) return reason(413, "The request body is too large");
  if (error == http::error::end_of_stream || error == http::error::partial_message)
    return std::nullopt;
  if (error.category() == make_error_code(http::error::end_of_stream).category()) {
    return reason(400, "Malformed HTTP request: " + error.message());
  }
  return std::nullopt;
}

std::string head_of(const HttpResponse& response, bool keep_alive, bool http_1_1) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, http_status_text(response.status));
  const auto add = [&](std::string_view name, std::string_view value) {
    head.append(name).append(": ");
    for (const char c : value)
      head += c == '\r' || c == '\n' ? ' ' : c;  // no header may break out of its line
    head += "\r\n";
  };
  if (!response.content_type.empty()) add("Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers) add(name, value);
  if (response.stream) {
    if (http_1_1) add("Transfer-Encoding", "chunked");
  } else if (response.status != 204) {
    add("Content-Length", std::to_string(response.body.size()));
  }
  if (!keep_alive) {
    add("Connection", "close");
  } else if (!http_1_1) {
    add("Connection", "keep-alive");
  }
  head += "\r\n";
  return head;
}

// One piece of the answer. False: the client is gone, or does not take it.
Task<bool> write_all(Stream& stream, std::string_view first, std::string_view second,
                     Millis timeout) {
  const std::array<asio::const_buffer, 2> pieces = {asio::buffer(first), asio::buffer(second)};
  Error error;
  stream.expires_after(timeout);
  co_await asio::async_write(stream, pieces, into(error));
  co_return !error;
}

Task<bool> write_stream(Stream& stream, BodyStream& body, bool chunked, Millis timeout) {
  std::string piece;
  while (true) {
    piece.clear();
    const bool more = co_await body.next(piece);
    if (!piece.empty()) {
      std::string size = chunked ? fmt::format("{:x}\r\n", piece.size()) : std::string();
      if (chunked) piece += "\r\n";
      if (!co_await write_all(stream, size, piece, timeout)) co_return false;
    }
    if (!more) break;
  }
  if (chunked && !co_await write_all(stream, "0\r\n\r\n", {}, timeout)) co_return false;
  co_return chunked;  // without chunks only the end of the connection tells the end of the body
}

Task<bool> write_response(Stream& stream, HttpResponse& response, bool head_only, bool keep_alive,
                          bool http_1_1, Millis timeout) {
  const std::string head = head_of(response, keep_alive, http_1_1);
  const bool has_body = !head_only && response.status != 204;
  const bool sent = co_await write_all(
      stream, head, has_body ? std::string_view(response.body) : std::string_view(), timeout);
  if (!sent) co_return false;
  if (has_body && response.stream) {
    co_return co_await write_stream(stream, *response.stream, http_1_1, timeout);
  }
  co_return true;
}

}  // namespace

HttpServer::HttpServer(Runtime& runtime, const HttpRouter& router)
    : runtime_(runtime), router_(router) {}
HttpServer::~HttpServer() = default;

Task<Status> HttpServer::start(HttpServerOptions options) {
  options_ = std::move(options);
  Error error;
  const auto address = asio::ip::make_address(options_.bind_address, error);
  if (error || options_.port > 65535) {
    co_return Status::InvalidArgument(
        fmt::format("cannot listen on '{}', port {}: give an IP address and a port up to 65535",
                    options_.bind_address, options_.port));
  }
  auto listener = std::make_unique<Listener>(runtime_.shard(0));
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(options_.port));
  auto& acceptor = listener->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1024, error);
  if (error) {
    co_return Status::Io(fmt::format(
        "HTTP cannot listen on {}:{}: {}{}", options_.bind_address, options_.port, error.message(),
        error == asio::error::address_in_use
            ? "; choose another port with --web-port or stop who uses it"
            : ""));
  }
  port_.store(acceptor.local_endpoint(error).port(), std::memory_order_relaxed);
  std::vector<unsigned> shards = options_.shards;
  for (unsigned i = 0; options_.shards.empty() && i < runtime_.shard_count(); ++i)
    shards.push_back(i);
  for (const unsigned shard : shards) {
    sides_.push_back(std::make_unique<Side>(runtime_.shard(shard),
                                            static_cast<unsigned>(shards.size()), options_));
  }
  listener_ = std::move(listener);
  spawn(runtime_.shard(0), listener_->gate, [this]() { return accept_loop(); });
  co_return Status::ok();
}

Task<void> HttpServer::accept_loop() {
  std::size_t next = 0;
  while (listener_->acceptor.is_open()) {
    Side& side = *sides_[next++ % sides_.size()];
    Error error;
    auto socket = co_await listener_->acceptor.async_accept(side.shard.io(), into(error));
    if (error == asio::error::operation_aborted || !listener_->acceptor.is_open()) break;
    if (error) {
      // Out of file descriptors, or the client gave up already: neither may turn into a busy loop.
      GM_LOG_WARN("HTTP: accepting a connection failed: {}", error.message());
      co_await sleep_for(Millis(50));
      continue;
    }
    socket.set_option(tcp::no_delay(true), error);
    auto connection = std::make_unique<Connection>(std::move(socket));
    side.arriving.fetch_add(1, std::memory_order_relaxed);
    side.shard.post([this, &side, connection = std::move(connection)]() mutable {
      side.arriving.fetch_sub(1, std::memory_order_relaxed);
      if (side.stopping || side.connections.size() >= side.max_connections) {
        count(side.connections_refused);
        return;
      }
      count(side.accepted);
      spawn(side.shard, side.gate, [this, &side, connection = std::move(connection)]() mutable {
        return serve(router_, runtime_, options_, side, std::move(connection));
      });
    });
  }
}

Task<void> HttpServer::serve(const HttpRouter& router, Runtime& runtime,
                             const HttpServerOptions& options, Side& side,
                             std::unique_ptr<Connection> connection) {
  Stream& stream = connection->stream;
  auto& buffer = connection->buffer;
  side.connections.insert(connection.get());
  Error error;
  const auto remote = stream.socket().remote_endpoint(error);
  if (!error)
    connection->remote = fmt::format("{}:{}", remote.address().to_string(), remote.port());

  bool keep_alive = true;
  while (keep_alive && !side.stopping) {
    connection->idle = true;
    if (buffer.size() == 0) {
      stream.expires_after(options.idle_timeout);
      const std::size_t got = co_await stream.async_read_some(buffer.prepare(4096), into(error));
      if (error || got == 0) break;
      buffer.commit(got);
    }
    connection->idle = false;

    std::optional<Parser> parser(std::in_place);
    parser->header_limit(static_cast<std::uint32_t>(options.max_header_bytes));
    parser->body_limit(options.max_body_bytes);
    stream.expires_after(options.header_timeout);
    co_await http::async_read_header(stream, buffer, *parser, into(error));

    HttpRequest request;
    std::optional<HttpResponse> response;
    BodyMemory memory(runtime.memory());
    bool http_1_1 = true;
    bool fits = true;
    if (!error) {
      take_head(*parser, request);
      http_1_1 = parser->get().version() >= 11;
      keep_alive = parser->keep_alive();
      if (!parser->is_done()) {
        fits = memory.reserve(static_cast<std::size_t>(parser->content_length().value_or(1)));
        stream.expires_after(options.body_timeout);
        if (fits && lower_case(request.header("expect")) == "100-continue") {
          const bool told =
              co_await write_all(stream, "HTTP/1.1 100 Continue\r\n\r\n", {}, options.body_timeout);
          if (!told) break;
        }
        while (fits && !error && !parser->is_done()) {
          co_await http::async_read_some(stream, buffer, *parser, into(error));
          // The parser may hold its next piece before it is asked for: one step ahead of what is
          // there.
          fits = memory.reserve(parser->get().body().size() + BodyMemory::kStep / 2);
        }
      }
      if (!fits) {
        count(side.requests_refused);
        response = reason(503, "The broker's memory budget is exhausted; try again later");
        keep_alive = false;
      }
    }
    if (error) {
      count(error == beast::error::timeout ? side.timeouts : side.requests_malformed);
      response = answer_to(error);
      keep_alive = false;
      if (!response) break;
    }
    count(side.requests);
    if (!response) {
      request.remote_address = connection->remote;
      request.body = std::move(parser->get().body());
      const Status parsed =
          parse_target({parser->get().target().data(), parser->get().target().size()}, request);
      parser.reset();
      if (!parsed) {
        // Jetty has no such path either.
        response =
            server_page(request, parsed.message().find("escape") != std::string::npos ? 400 : 404);
      } else if (side.running >= side.max_requests) {
        count(side.requests_refused);
        response = reason(503, "Too many requests at once; try again later");
      } else {
        ++side.running;
        response = co_await router.dispatch(request);
        --side.running;
      }
    }
    if (response->status >= 500 && response->status != 501) count(side.failures);
    if (response->status >= 400) {
      GM_LOG_DEBUG("HTTP: {} {} from {}: {} {}", to_string(request.method), request.target,
                   connection->remote, response->status, response->body);
    }
    if (side.stopping) keep_alive = false;
    const bool head_only = request.method == HttpMethod::Head;
    if (!co_await write_response(stream, *response, head_only, keep_alive, http_1_1,
                                 options.write_timeout))
      break;
  }
  side.connections.erase(connection.get());
  // A client that still sends what was refused would not see the answer if the socket were closed
  // on it.
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
  if (!keep_alive && !side.stopping && !error) {
    std::array<char, 4096> rest;
    std::size_t drained = 0;
    stream.expires_after(Millis(1000));
    while (!error && drained < (1U << 20)) {
      drained += co_await stream.async_read_some(asio::buffer(rest), into(error));
    }
  }
}

Task<void> HttpServer::stop() {
  if (!listener_ || !listener_->acceptor.is_open()) co_return;
  Error ignored;
  listener_->acceptor.close(ignored);
  co_await listener_->gate.close();
  for (auto& owned : sides_) {
    Side* side = owned.get();
    const Millis patience = options_.stop_timeout;
    auto work = [side, patience]() -> Task<void> {
      Side& here = *side;
      Error ec;
      here.stopping = true;
      for (Connection* connection : here.connections) {
        if (connection->idle) connection->stream.socket().close(ec);
      }
      const std::int64_t until = monotonic_ns() + patience.count() * 1'000'000;
      while (here.arriving.load(std::memory_order_relaxed) != 0) co_await sleep_for(Millis(1));
      while (here.gate.inside() != 0 && monotonic_ns() < until) co_await sleep_for(Millis(5));
      for (Connection* connection : here.connections) connection->stream.socket().close(ec);
      co_await here.gate.close();
    };
    co_await on_shard(side->shard, std::move(work));
  }
}

HttpCounters HttpServer::counters() const {
  HttpCounters sum;
  for (const auto& side : sides_) {
    const auto read = [](const std::atomic<std::uint64_t>& c) {
      return c.load(std::memory_order_relaxed);
    };
    sum.connections += read(side->accepted);
    sum.connections_refused += read(side->connections_refused);
    sum.requests += read(side->requests);
    sum.requests_refused += read(side->requests_refused);
    sum.requests_malformed += read(side->requests_malformed);
    sum.timeouts += read(side->timeouts);
    sum.failures += read(side->failures);
  }
  return sum;
}

}  // namespace geminga
