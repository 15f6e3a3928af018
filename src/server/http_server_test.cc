#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <thread>

namespace geminga {
namespace {

using asio::ip::tcp;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Numbers final : public BodyStream {
 public:
  Task<bool> next(std::string& piece) override {
    piece = std::to_string(++at_) + ",";
    co_return at_ < 3;
  }

 private:
  int at_ = 0;
};

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest()
      : runtime_({.shards = 2, .memory_limit = 1 << 20, .pin_threads = false}),
        server_(runtime_, router_) {
    router_.get("/echo/{word}", "", [](HttpRequest& r) -> Task<Result<HttpResponse>> {
      co_return json_text(r.param("word"));
    });
    router_.post("/echo", "",
                 [](HttpRequest& r) -> Task<Result<HttpResponse>> { co_return json_text(r.body); });
    router_.get("/numbers", "", [](HttpRequest&) -> Task<Result<HttpResponse>> {
      HttpResponse response = ok_empty();
      response.content_type = "text/plain";
      response.stream = std::make_unique<Numbers>();
      co_return response;
    });
    router_.get("/slow", "", [](HttpRequest&) -> Task<Result<HttpResponse>> {
      co_await sleep_for(Millis(100));
      co_return no_content();
    });
    runtime_.start();
  }
  void start(HttpServerOptions options = {}) {
    options.bind_address = "127.0.0.1";
    options.port = 0;
    const Status status = runtime_.run_and_wait(
        0, [&]() -> Task<Status> { co_return co_await server_.start(options); });
    ASSERT_TRUE(status.is_ok()) << status.to_string();
  }
  ~HttpServerTest() override {
    runtime_.run_and_wait(0, [&]() -> Task<void> { co_await server_.stop(); });
    runtime_.stop();
  }

  tcp::socket connect() {
    tcp::socket socket(io_);
    socket.connect(
        {asio::ip::make_address("127.0.0.1"), static_cast<std::uint16_t>(server_.port())});
    return socket;
  }
  static std::string read_all(tcp::socket& socket) {
    std::string answer;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(answer), error);
    return answer;
  }
  // Sends `text` on a fresh connection and reads until the server closes it.
  std::string ask(const std::string& text) {
    tcp::socket socket = connect();
    boost::system::error_code error;
    asio::write(socket, asio::buffer(text), error);
    return read_all(socket);
  }

  asio::io_context io_;
  Runtime runtime_;
  HttpRouter router_;
  HttpServer server_;
};

TEST_F(HttpServerTest, AnswersAndCloses) {
  start();
  const std::string answer = ask("GET /echo/hi HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(
      answer,
      StartsWith("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nhi"));
}

TEST_F(HttpServerTest, KeepsAliveAndPipelines) {
  start();
  const std::string answer =
      ask("GET /echo/one HTTP/1.1\r\nHost: x\r\n\r\n"
          "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntwo"
          "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
          "chunked\r\n\r\n3\r\nthr\r\n2\r\nee\r\n0\r\n\r\n"
          "HEAD /echo/four HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("\r\n\r\noneHTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\ntwoHTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\nthreeHTTP/1.1 200"));
  EXPECT_THAT(answer, EndsWith("Content-Length: 4\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(server_.counters().requests, 4U);
}

TEST_F(HttpServerTest, ReadsARequestByteByByte) {
  start();
  tcp::socket socket = connect();
  for (const char c :
       std::string("POST /echo HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")) {
    asio::write(socket, asio::buffer(&c, 1));
  }
  EXPECT_THAT(read_all(socket), EndsWith("\r\n\r\nok"));
}

TEST_F(HttpServerTest, StreamsInChunks) {
  start();
  EXPECT_THAT(ask("GET /numbers HTTP/1.1\r\nConnection: close\r\n\r\n"),
              EndsWith("\r\n\r\n2\r\n1,\r\n2\r\n2,\r\n2\r\n3,\r\n0\r\n\r\n"));
  EXPECT_THAT(ask("GET /numbers HTTP/1.0\r\n\r\n"), EndsWith("\r\n\r\n1,2,3,"));
}

TEST_F(HttpServerTest, ContinuesWhenAskedTo) {
  start();
  tcp::socket socket = connect();
  asio::write(socket, asio::buffer(std::string(
                          "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: "
                          "2\r\nConnection: close\r\n\r\n")));
  std::string got;
  asio::read_until(socket, asio::dynamic_buffer(got), "100 Continue\r\n\r\n");
  asio::write(socket, asio::buffer("ok", 2));
  EXPECT_THAT(read_all(socket), EndsWith("ok"));
}

TEST_F(HttpServerTest, RefusesWhatIsTooLarge) {
  start({.max_header_bytes = 1024, .max_body_bytes = 1000});
  EXPECT_THAT(ask("GET /echo/x HTTP/1.1\r\nX: " + std::string(5000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask("POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n\r\n" + std::string(1001, 'x')),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                  std::string(2000, 'x')),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(server_.counters().requests_malformed, 3U);
}

TEST_F(HttpServerTest, BodiesDrawFromTheMemoryBudget) {
  start({.max_body_bytes = 64 << 20});
  const std::string chunk = "10000\r\n" + std::string(65536, 'x') + "\r\n";
  std::string chunked = "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 30; ++i) chunked += chunk;
  EXPECT_THAT(ask(chunked), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(ask("POST /echo HTTP/1.1\r\nContent-Length: 50000000\r\n\r\n"),
              StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(server_.counters().requests_refused, 2U);
  EXPECT_THAT(ask("POST /echo HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"),
              EndsWith("ok"));
  while (runtime_.memory().used() != 0) std::this_thread::yield();
}

TEST_F(HttpServerTest, RefusesWhatIsNotHttp) {
  start();
  EXPECT_THAT(ask("\x16\x03\x01 nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET /a%zz HTTP/1.1\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET //a HTTP/1.1\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("BREW /echo HTTP/1.1\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
}

TEST_F(HttpServerTest, ClosesSlowAndIdleClients) {
  start({.idle_timeout = Millis(100), .header_timeout = Millis(100), .body_timeout = Millis(100)});
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(ask(""), "");
  EXPECT_EQ(ask("GET /echo/x HTTP/1.1\r\nX-Slow:"), "");
  EXPECT_EQ(ask("POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nsome"), "");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(3));
  // The socket closes a moment before its coroutine hears of it.
  while (server_.counters().timeouts < 2) std::this_thread::yield();
}

TEST_F(HttpServerTest, LimitsConnections) {
  start({.max_connections = 2});
  tcp::socket first = connect();
  tcp::socket second = connect();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  tcp::socket third = connect();
  EXPECT_EQ(read_all(third), "");
  EXPECT_EQ(server_.counters().connections_refused, 1U);
}

TEST_F(HttpServerTest, StopLetsARunningRequestEnd) {
  start();
  tcp::socket idle = connect();
  tcp::socket busy = connect();
  asio::write(busy, asio::buffer(std::string("GET /slow HTTP/1.1\r\n\r\n")));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  runtime_.run_and_wait(0, [&]() -> Task<void> { co_await server_.stop(); });
  EXPECT_THAT(read_all(busy), StartsWith("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(read_all(idle), "");
}

TEST_F(HttpServerTest, APortInUseIsSaidClearly) {
  start();
  HttpServer other(runtime_, router_);
  const unsigned port = server_.port();
  const Status status = runtime_.run_and_wait(0, [&]() -> Task<Status> {
    HttpServerOptions options;
    options.bind_address = "127.0.0.1";
    options.port = port;
    co_return co_await other.start(options);
  });
  EXPECT_TRUE(status.is(ErrorCode::Io));
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(port)));
  EXPECT_THAT(status.message(), HasSubstr("--web-port"));
}

}  // namespace
}  // namespace geminga
