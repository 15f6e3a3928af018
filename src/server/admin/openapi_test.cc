#include "server/admin/openapi.h"

#include <gmock/gmock.h>

#include <set>

#include "broker/broker_test_support.h"
#include "server/admin/admin.h"

namespace geminga {
namespace {

namespace json = boost::json;

class OpenApi : public testing::BrokerWorld {};

TEST_F(OpenApi, DescribesEveryRouteThatServesAndNoOther) {
  run_with_broker([this]() -> Task<void> {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    std::vector<std::string> unused;
    const json::object document = describe_api(router, &unused);
    EXPECT_THAT(unused, ::testing::IsEmpty());
    std::size_t described = 0;
    std::set<std::string> ids;
    for (const auto& [path, item] : document.at("paths").as_object()) {
      for (const auto& [verb, operation] : item.as_object()) {
        ++described;
        EXPECT_TRUE(ids.emplace(operation.at("operationId").as_string()).second)
            << operation.at("operationId");
        EXPECT_FALSE(operation.at("summary").as_string().empty()) << path;
        for (const json::value& parameter : operation.at("parameters").as_array()) {
          if (parameter.at("in") != "path") continue;
          const std::string name(parameter.at("name").as_string());
          EXPECT_NE(std::string_view(path).find("{" + name + "}"), std::string_view::npos)
              << path << " " << name;
        }
      }
    }
    EXPECT_EQ(described, router.routes().size());
    for (const auto& route : router.routes()) {
      const std::string path = route->pattern.substr(0, route->pattern.find("...}"));
      bool there = false;
      for (const auto& [key, item] : document.at("paths").as_object())
        there = there || key == route->pattern || std::string_view(key).starts_with(path);
      EXPECT_TRUE(there) << route->pattern;
    }
    co_return;
  });
}

TEST_F(OpenApi, TellsWhatRequestsTake) {
  run_with_broker([this]() -> Task<void> {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    const json::object document = describe_api(router);
    const json::value& set = document.at("paths")
                                 .at("/admin/v2/persistent/{tenant}/{namespace}/{topic}/retention")
                                 .at("post");
    EXPECT_EQ(set.at("requestBody").at("content").at("application/json").at("schema").at("$ref"),
              "#/components/schemas/RetentionPolicies");
    EXPECT_TRUE(document.at("components").at("schemas").as_object().contains("RetentionPolicies"));
    EXPECT_EQ(set.at("parameters").as_array().size(), 4) << "tenant, namespace, topic, isGlobal";
    co_return;
  });
}

}  // namespace
}  // namespace geminga
