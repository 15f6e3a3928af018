// Names of the old form, tenant/cluster/namespace: their topics are administered below
// /admin/{domain}, and their namespaces need not be created.
#include <gtest/gtest.h>

#include "broker/broker_test_support.h"
#include "server/admin/admin.h"
#include "server/http_router.h"

namespace geminga {
namespace {

class OldNames : public testing::BrokerWorld {
 protected:
  // "STATUS body" of a request without a body, or with `body` as its JSON.
  Task<std::string> ask(HttpRouter& router, HttpMethod method, std::string target,
                        std::string body) {
    HttpRequest request;
    request.method = method;
    EXPECT_TRUE(parse_target(target, request).is_ok());
    if (!body.empty()) request.headers.emplace_back("content-type", "application/json");
    request.body = std::move(body);
    const HttpResponse response = co_await router.dispatch(request);
    co_return std::to_string(response.status) + ' ' + response.body;
  }
};

TEST_F(OldNames, TopicsAreFoundUnderTheirOldPath) {
  run_with_broker([this]() -> Task<void> {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    struct Step {
      HttpMethod method;
      const char* target;
      const char* body;
      const char* answer;
    };
    const Step steps[] = {
        {HttpMethod::Get, "/admin/persistent/a/use/n/t/partitions?checkAllowAutoCreation=true", "",
         R"(200 {"partitions":0,"deleted":false})"},
        {HttpMethod::Get, "/admin/persistent/a/use/n/t/partitions", "",
         R"(404 {"reason":"Topic persistent://a/use/n/t not found"})"},
        {HttpMethod::Get, "/admin/persistent/a/global/n/t/partitions?checkAllowAutoCreation=true",
         "", R"(404 {"reason":"Namespace not found"})"},
        {HttpMethod::Put, "/admin/persistent/a/use/n/p/partitions", "2", "204 "},
        {HttpMethod::Get, "/admin/persistent/a/use/n/p/partitions", "",
         R"(200 {"partitions":2,"deleted":false})"},
        {HttpMethod::Put, "/admin/non-persistent/a/use/n/q/partitions", "3", "204 "},
        {HttpMethod::Get, "/admin/non-persistent/a/use/n/q/partitions", "",
         R"(200 {"partitions":3,"deleted":false})"},
        {HttpMethod::Delete, "/admin/persistent/a/use/n/p/partitions", "", "204 "},
        {HttpMethod::Get, "/lookup/v2/destination/persistent/a/use/n/t", "",
         R"(200 {"brokerUrl":"pulsar://localhost:6650","httpUrl":"http://localhost:8080",)"
         R"("nativeUrl":"pulsar://localhost:6650","brokerUrlSsl":""})"}};
    for (const Step& step : steps) {
      const std::string answer = co_await ask(router, step.method, step.target, step.body);
      EXPECT_EQ(answer, step.answer) << step.target;
    }
  });
}

TEST_F(OldNames, NamespacesCanBeCreatedAndAreListed) {
  run_with_broker([this]() -> Task<void> {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    const std::string made =
        co_await ask(router, HttpMethod::Put, "/admin/namespaces/public/use/n", "");
    EXPECT_EQ(made, "204 ");
    const std::string again =
        co_await ask(router, HttpMethod::Put, "/admin/namespaces/public/use/n", "");
    EXPECT_EQ(again, R"(409 {"reason":"Namespace already exists"})");
    const std::string listed =
        co_await ask(router, HttpMethod::Get, "/admin/v2/namespaces/public", "");
    EXPECT_EQ(listed, R"(200 ["public/default","public/use/n"])");
    const std::string policies =
        co_await ask(router, HttpMethod::Get, "/admin/namespaces/public/use/n", "");
    EXPECT_NE(policies.find(R"("replication_clusters":[])"), std::string::npos) << policies;
    const std::string gone =
        co_await ask(router, HttpMethod::Delete, "/admin/namespaces/public/use/n", "");
    EXPECT_EQ(gone, "204 ");
    const std::string left = co_await ask(router, HttpMethod::Get, "/admin/namespaces/public", "");
    EXPECT_EQ(left, R"(200 ["public/default"])");
  });
}

// Its topics are closed first: none is left that finds its metadata gone.
TEST_F(OldNames, GoWithTheirTenant) {
  config.force_delete_tenant_allowed = true;
  run_with_broker([this]() -> Task<void> {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    const std::string tenant =
        co_await ask(router, HttpMethod::Put, "/admin/v2/tenants/a",
                     R"({"adminRoles":[],"allowedClusters":["standalone"]})");
    EXPECT_EQ(tenant, "204 ");
    const std::string topic =
        co_await ask(router, HttpMethod::Put, "/admin/persistent/a/use/n/t", "");
    EXPECT_EQ(topic, "204 ");
    const auto name = TopicName::parse("persistent://a/use/n/t");
    EXPECT_NE(broker->loaded_topic(*name), nullptr);
    const std::string gone =
        co_await ask(router, HttpMethod::Delete, "/admin/v2/tenants/a?force=true", "");
    EXPECT_EQ(gone, "204 ");
    EXPECT_EQ(broker->loaded_topic(*name), nullptr);
  });
}

TEST_F(OldNames, NamespacesHavePoliciesUnderTheirOldPath) {
  run_with_broker([this]() -> Task<void> {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    struct Step {
      HttpMethod method;
      const char* target;
      const char* body;
      const char* answer;
    };
    const Step steps[] = {
        {HttpMethod::Put, "/admin/v2/clusters/use", R"({"serviceUrl":"http://use:8080"})", "200 "},
        {HttpMethod::Put, "/admin/v2/tenants/a", R"({"allowedClusters":["use"]})", "204 "},
        {HttpMethod::Put, "/admin/namespaces/a/use/n", "", "204 "},
        {HttpMethod::Get, "/admin/namespaces/a/use", "", R"(200 ["a/use/n"])"},
        {HttpMethod::Get, "/admin/namespaces/a/use/n/retention", "", "200 "},
        {HttpMethod::Post, "/admin/namespaces/a/use/n/retention",
         R"({"retentionTimeInMinutes":5,"retentionSizeInMB":1})", "204 "},
        {HttpMethod::Get, "/admin/namespaces/a/use/n/retention", "",
         R"(200 {"retentionTimeInMinutes":5,"retentionSizeInMB":1})"},
        {HttpMethod::Get, "/admin/namespaces/a/use/missing/retention", "",
         R"(404 {"reason":"Namespace does not exist"})"},
        {HttpMethod::Get, "/admin/persistent/a/use/n", "", "200 []"}};
    for (const Step& step : steps) {
      const std::string answer = co_await ask(router, step.method, step.target, step.body);
      EXPECT_EQ(answer, step.answer) << step.target;
    }
    const auto name = TopicName::parse("persistent://a/use/n/t");
    const auto settings = co_await broker->topic_settings(*name);
    EXPECT_EQ(settings->ledger.retention_ms, 5 * 60'000);
  });
}

}  // namespace
}  // namespace geminga
