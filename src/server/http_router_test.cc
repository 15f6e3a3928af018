#include "server/http_router.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

namespace geminga {
namespace {

HttpHandler answer(std::string name) {
  return [name](HttpRequest& request) -> Task<Result<HttpResponse>> {
    std::string text = name;
    for (const auto& [key, value] : request.params) text += " " + std::string(key) + "=" + value;
    return [](std::string body) -> Task<Result<HttpResponse>> {
      co_return json_text(body);
    }(std::move(text));
  };
}

class HttpRouterTest : public ::testing::Test {
 protected:
  HttpRouterTest() {
    router_.get("/admin/v2/persistent/{tenant}/{namespace}", "", answer("list"));
    router_.get("/admin/v2/persistent/{tenant}/{namespace}/partitioned", "", answer("partitioned"));
    router_.put("/admin/v2/persistent/{tenant}/{namespace}/{topic}", "", answer("create"));
    router_.get("/admin/v2/persistent/{tenant}/{namespace}/{topic}/stats", "", answer("stats"));
    router_.get("/lookup/v2/destination/{domain}/{rest...}", "", answer("v1"));
    router_.get("/fails", "", [](HttpRequest&) -> Task<Result<HttpResponse>> {
      co_return Status::PreconditionFailed("no");
    });
  }
  HttpResponse ask(HttpMethod method, std::string_view target) {
    HttpRequest request;
    request.method = method;
    EXPECT_TRUE(parse_target(target, request).is_ok());
    asio::io_context io;
    auto done = asio::co_spawn(io, router_.dispatch(request), asio::use_future);
    io.run();
    return done.get();
  }
  HttpRouter router_;
};

TEST_F(HttpRouterTest, PatternsBindTheirNames) {
  EXPECT_EQ(ask(HttpMethod::Get, "/admin/v2/persistent/t/n").body, "list tenant=t namespace=n");
  EXPECT_EQ(ask(HttpMethod::Get, "/admin/v2/persistent/t/n/a%2Fb/stats").body,
            "stats tenant=t namespace=n topic=a/b");
  EXPECT_EQ(ask(HttpMethod::Get, "/lookup/v2/destination/persistent/t/c/n/x/y").body,
            "v1 domain=persistent rest=t/c/n/x/y");
}

TEST_F(HttpRouterTest, LiteralsWinUnlessTheMethodIsMissing) {
  EXPECT_EQ(ask(HttpMethod::Get, "/admin/v2/persistent/t/n/partitioned").body,
            "partitioned tenant=t namespace=n");
  EXPECT_EQ(ask(HttpMethod::Put, "/admin/v2/persistent/t/n/partitioned").body,
            "create tenant=t namespace=n topic=partitioned");
}

TEST_F(HttpRouterTest, UnknownPathsAndMethods) {
  EXPECT_EQ(ask(HttpMethod::Get, "/admin/v2/nonsense").status, 404U);
  EXPECT_EQ(ask(HttpMethod::Get, "/admin/v2/persistent/t/n/x/stats/y").status, 404U);
  const HttpResponse refused = ask(HttpMethod::Delete, "/admin/v2/persistent/t/n/x");
  EXPECT_EQ(refused.status, 405U);
  EXPECT_EQ(refused.headers.back(), (std::pair<std::string, std::string>("Allow", "OPTIONS,PUT")));
  EXPECT_EQ(ask(HttpMethod::Head, "/admin/v2/persistent/t/n").status, 200U);
}

TEST_F(HttpRouterTest, ErrorsBecomeReasons) {
  const HttpResponse response = ask(HttpMethod::Get, "/fails");
  EXPECT_EQ(response.status, 412U);
  EXPECT_EQ(response.body, R"({"reason":"no"})");
}

TEST_F(HttpRouterTest, KnowsWhatItHas) {
  EXPECT_TRUE(router_.has(HttpMethod::Get, "/admin/v2/persistent/{a}/{b}"));
  EXPECT_FALSE(router_.has(HttpMethod::Put, "/admin/v2/persistent/{a}/{b}"));
  EXPECT_FALSE(router_.has(HttpMethod::Get, "/admin/v2/persistent/{a}"));
  EXPECT_EQ(router_.routes().size(), 6U);
}

}  // namespace
}  // namespace geminga
