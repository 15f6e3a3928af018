// The broker itself: who it is, whether it works, how it is configured.
#include <boost/json/object.hpp>

#include "base/config.h"
#include "server/admin/admin.h"

namespace geminga {

namespace {

// The version of Pulsar whose API this is: what tools that ask want to know.
constexpr std::string_view kApiVersion = "4.0.7";

Answer list(Admin& admin, HttpRequest&) { co_return text_list({admin.broker_id()}); }

Answer leader(Admin& admin, HttpRequest&) {
  boost::json::object out;
  out["serviceUrl"] = admin.broker.addresses().web_service_url;
  out["brokerId"] = admin.broker_id();
  co_return json_answer(out);
}

Answer version(Admin&, HttpRequest&) { co_return json_text(std::string(kApiVersion)); }

// Healthy: the metadata store answers, and every shard takes its turn.
Answer health(Admin& admin, HttpRequest&) {
  auto known = co_await admin.metadata().get("/admin/clusters/" + admin.cluster());
  if (!known) co_return reason(500, "the metadata store fails: " + known.status().message());
  Runtime& runtime = admin.broker.runtime();
  for (unsigned i = 0; i < runtime.shard_count(); ++i) {
    auto turn = []() -> Task<bool> { co_return true; };
    co_await on_shard(runtime.shard(i), turn);
  }
  co_return json_text("ok");
}

Answer ready(Admin&, HttpRequest&) { co_return json_text("ok"); }

Answer runtime_configuration(Admin& admin, HttpRequest&) {
  boost::json::object out;
  for (const auto& [key, value] : config_values(admin.config())) out[key] = value;
  co_return json_answer(out);
}

// No setting can be changed while the broker runs.
Answer dynamic_names(Admin&, HttpRequest&) { co_return json_text("[]"); }
Answer dynamic_values(Admin&, HttpRequest&) { co_return json_text("{}"); }
Answer set_dynamic(Admin&, HttpRequest&) {
  co_return Status::PreconditionFailed("Can't update non-dynamic configuration");
}
Answer remove_dynamic(Admin&, HttpRequest&) {
  co_return Status::PreconditionFailed("Can't delete non-dynamic configuration");
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/admin/v2/brokers", "Brokers of the cluster", list},
    {HttpMethod::Get, "/admin/v2/brokers/{cluster}", "Brokers of a cluster", list},
    {HttpMethod::Get, "/admin/v2/brokers/leaderBroker", "The broker that leads", leader},
    {HttpMethod::Get, "/admin/v2/brokers/version", "The version of the API", version},
    {HttpMethod::Get, "/admin/v2/brokers/health", "Whether the broker works", health},
    {HttpMethod::Get, "/admin/v2/brokers/ready", "Whether the broker has started", ready},
    {HttpMethod::Get, "/admin/v2/brokers/configuration/runtime", "Every setting with its value",
     runtime_configuration},
    {HttpMethod::Get, "/admin/v2/brokers/configuration", "Settings that can be changed at run time",
     dynamic_names},
    {HttpMethod::Get, "/admin/v2/brokers/configuration/values",
     "Settings that were changed at run time", dynamic_values},
    {HttpMethod::Post, "/admin/v2/brokers/configuration/{name}/{value}", "Change a setting",
     set_dynamic},
    {HttpMethod::Delete, "/admin/v2/brokers/configuration/{name}", "Take back a changed setting",
     remove_dynamic},
};

}  // namespace

void add_broker_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
