#include "server/http_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace geminga {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HttpRequest parsed(std::string_view target) {
  HttpRequest request;
  const Status status = parse_target(target, request);
  EXPECT_TRUE(status.is_ok()) << status.to_string();
  return request;
}

TEST(ParseTarget, SegmentsAreDecodedAfterTheSplit) {
  EXPECT_THAT(parsed("/admin/v2/persistent/t/n/a%2Fb%20c+d").segments,
              ElementsAre("admin", "v2", "persistent", "t", "n", "a/b c d"));
}

TEST(ParseTarget, TrailingSlashIsDroppedDoubleSlashRefused) {
  EXPECT_THAT(parsed("/metrics/").segments, ElementsAre("metrics"));
  EXPECT_THAT(parsed("/").segments, ElementsAre());
  HttpRequest request;
  EXPECT_FALSE(parse_target("/admin//v2", request).is_ok());
  EXPECT_FALSE(parse_target("http://x/", request).is_ok());
  EXPECT_FALSE(parse_target("/a%zz", request).is_ok());
  EXPECT_FALSE(parse_target("", request).is_ok());
}

TEST(ParseTarget, QueryValues) {
  const HttpRequest request =
      parsed("/x?authoritative=TRUE&force=yes&n=-12&bad=1x&empty&a%20b=c+d&&n=7");
  EXPECT_TRUE(request.query_flag("authoritative", false));
  EXPECT_FALSE(request.query_flag("force", true));
  EXPECT_TRUE(request.query_flag("absent", true));
  EXPECT_EQ(request.query_number("n"), -12);
  EXPECT_EQ(request.query_number("bad"), std::nullopt);
  EXPECT_EQ(request.query_value("empty"), "");
  EXPECT_EQ(request.query_value("a b"), "c d");
}

TEST(ParseTarget, PartsAreLimited) {
  HttpRequest request;
  std::string path;
  std::string query = "/x?";
  for (int i = 0; i < 1000; ++i) {
    path += "/a";
    query += "a=b&";
  }
  EXPECT_FALSE(parse_target(path, request).is_ok());
  EXPECT_FALSE(parse_target(query, request).is_ok());
}

TEST(Answers, ReasonIsPulsarsShape) {
  const HttpResponse response = reason(Status::NotFound("Tenant \"x\" does not exist"));
  EXPECT_EQ(response.status, 404U);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.body, R"({"reason":"Tenant \"x\" does not exist"})");
}

TEST(Answers, ServerPageFollowsAcceptAndMethod) {
  HttpRequest request = parsed("/admin/v2/non<sense");
  EXPECT_THAT(server_page(request, 404).body, HasSubstr("<title>Error 404 Not Found</title>"));
  EXPECT_THAT(server_page(request, 404).body, HasSubstr("/admin/v2/non&lt;sense"));
  request.headers = {{"accept", "application/json"}};
  EXPECT_EQ(
      server_page(request, 404).body,
      R"({"servlet":"geminga","message":"Not Found","url":"/admin/v2/non<sense","status":"404"})");
  request.headers = {{"accept", "text/plain"}};
  EXPECT_THAT(server_page(request, 405).body, HasSubstr("HTTP ERROR 405 Method Not Allowed"));
  request.method = HttpMethod::Delete;
  EXPECT_EQ(server_page(request, 405).body, "");
  EXPECT_EQ(server_page(request, 405).content_type, "");
}

}  // namespace
}  // namespace geminga
