// The broker itself: who it is, whether it works, what it serves.
#include <boost/json/object.hpp>
#include <map>
#include <set>

#include "server/admin/admin.h"
#include "server/admin/broker_stats.h"
#include "server/admin/bundles.h"
#include "server/admin/documents.h"

namespace geminga {

namespace {

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

// Owns all that is loaded: a broker that stands alone.
Answer owned_namespaces(Admin& admin, HttpRequest& request) {
  if (request.param("broker") != admin.broker_id()) {
    co_return Status::NotFound("Broker id '" + request.param("broker") +
                               "' not found in available brokers.");
  }
  const std::vector<TopicName> topics = co_await admin.broker.loaded_topics();
  std::set<std::string> bundles;
  const auto of = co_await Bundles::of(admin, topics);
  if (!of) co_return of.status();
  for (const TopicName& topic : topics)
    bundles.insert(std::string(topic.ns()) + '/' + of->bundle(topic));
  boost::json::object out;
  for (const std::string& bundle : bundles) {
    out[bundle] = boost::json::object{
        {"broker_assignment", "shared"}, {"is_controlled", false}, {"is_active", true}};
  }
  co_return json_answer(out);
}

Answer internal_configuration(Admin& admin, HttpRequest&) {
  boost::json::object out;
  for (const char* key : {"zookeeperServers", "configurationStoreServers", "metadataStoreUrl",
                          "configurationMetadataStoreUrl"}) {
    out[key] = admin.metadata_url;
  }
  out["ledgersRootPath"] = "/ledgers";
  co_return json_answer(out);
}

Answer check_backlogs(Admin& admin, HttpRequest&) {
  co_await admin.broker.check_backlogs();
  co_return no_content();
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/admin/v2/brokers", "Brokers of the cluster", list},
    {HttpMethod::Get, "/admin/v2/brokers/{cluster}", "Brokers of a cluster", list},
    {HttpMethod::Get, "/admin/v2/brokers/leaderBroker", "The broker that leads", leader},
    {HttpMethod::Get, "/admin/v2/brokers/version", "The version of the API", version},
    {HttpMethod::Get, "/admin/v2/brokers/health", "Whether the broker works", health},
    {HttpMethod::Get, "/admin/v2/brokers/ready", "Whether the broker has started", ready},
    {HttpMethod::Get, "/admin/v2/brokers/backlog-quota-check", "Let quotas of the backlog act now",
     check_backlogs},
    {HttpMethod::Get, "/admin/v2/brokers/internal-configuration", "Where metadata are kept",
     internal_configuration},
    {HttpMethod::Get, "/admin/v2/brokers/{cluster}/{broker}/ownedNamespaces",
     "Bundles that a broker serves", owned_namespaces},
};

}  // namespace

void add_broker_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
