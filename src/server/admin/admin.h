// The admin REST API: what its resources share. One file a resource beside this one; each registers
// its routes from a table. Handlers run on the connection's shard and hop to a topic's shard for
// what belongs to it.
#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "broker/broker.h"
#include "broker/topic.h"
#include "broker/topic_name.h"
#include "runtime/async.h"
#include "server/http_router.h"

namespace geminga {

class HttpServer;
class MetricsRegistry;

// The version of Pulsar whose API this is: what tools that ask want to know.
inline constexpr std::string_view kApiVersion = "4.0.7";

// What handlers work on; outlives the router.
struct Admin {
  Broker& broker;
  // What /metrics shows beside the broker's topics; may be null.
  const MetricsRegistry* metrics = nullptr;
  const HttpServer* http = nullptr;
  std::int64_t started_ms = now_ms();
  std::string metadata_url = "memory:local";  // where the metadata store is, for who asks

  MetadataStore& metadata() const { return broker.metadata(); }
  const BrokerConfig& config() const { return broker.config(); }
  // With what operators have changed since the start.
  std::shared_ptr<const BrokerConfig> live() const { return broker.live_config().now(); }
  std::string cluster() const;
  std::string broker_id() const;  // "localhost:8080"
};

// Every route of this process: lookups, admin, /metrics, and 501 for what of Pulsar is not built.
void add_admin_routes(HttpRouter& router, Admin& admin);

using Answer = Task<Result<HttpResponse>>;
using AdminHandler = Answer (*)(Admin& admin, HttpRequest& request);
struct AdminRoute {
  HttpMethod method;
  // ":domain" as a segment stands for "persistent" and "non-persistent": two routes. What is below
  // a topic or a namespace has a twin without "v2" and with a cluster, for names of the old form.
  const char* pattern;
  const char* summary;
  AdminHandler handler;
};
void add_routes(HttpRouter& router, Admin& admin, std::span<const AdminRoute> routes);

void add_lookup_routes(HttpRouter& router, Admin& admin);
void add_broker_routes(HttpRouter& router, Admin& admin);
void add_cluster_routes(HttpRouter& router, Admin& admin);
void add_tenant_routes(HttpRouter& router, Admin& admin);
void add_namespace_routes(HttpRouter& router, Admin& admin);
void add_namespace_policy_routes(HttpRouter& router, Admin& admin);
void add_namespace_cluster_routes(HttpRouter& router, Admin& admin);
void add_permission_routes(HttpRouter& router, Admin& admin);
void add_topic_routes(HttpRouter& router, Admin& admin);
void add_topic_stats_routes(HttpRouter& router, Admin& admin);
void add_compaction_routes(HttpRouter& router, Admin& admin);
void add_topic_policy_routes(HttpRouter& router, Admin& admin);
void add_subscription_routes(HttpRouter& router, Admin& admin);
void add_message_routes(HttpRouter& router, Admin& admin);
void add_schema_routes(HttpRouter& router, Admin& admin);
void add_transaction_routes(HttpRouter& router, Admin& admin);
void add_bundle_routes(HttpRouter& router, Admin& admin);
void add_isolation_policy_routes(HttpRouter& router, Admin& admin);
void add_resource_group_routes(HttpRouter& router, Admin& admin);
void add_resource_quota_routes(HttpRouter& router, Admin& admin);
void add_bookie_routes(HttpRouter& router, Admin& admin);
void add_broker_stats_routes(HttpRouter& router, Admin& admin);
void add_broker_load_routes(HttpRouter& router, Admin& admin);
void add_configuration_routes(HttpRouter& router, Admin& admin);
void add_topic_record_routes(HttpRouter& router, Admin& admin);
void add_missing_routes(HttpRouter& router);

// --- reading requests
// -------------------------------------------------------------------------------------------

// A body as JSON. `refusal` is what to answer if it is none: empty (unless allowed, then null is
// given), not JSON, another content type.
struct JsonBody {
  boost::json::value value;
  std::optional<HttpResponse> refusal;
};
enum class EmptyBody { Refused, Allowed };
JsonBody json_body(const HttpRequest& request, EmptyBody empty);
// For errors of policy readers: Protocol is bare text, all others a reason.
HttpResponse refusal_of(const Status& status);

// {tenant}/{namespace}, of the old form if the route has a {cluster}; PreconditionFailed "Namespace
// name is not valid".
Result<NamespaceName> namespace_of(const HttpRequest& request);
// :domain/{tenant}/{namespace}/{topic}; PreconditionFailed "Topic name is not valid".
Result<TopicName> topic_of(const HttpRequest& request);

HttpResponse json_answer(const boost::json::value& value, unsigned status = 200);
HttpResponse text_list(const std::vector<std::string>& texts);

// --- what several resources ask
// ---------------------------------------------------------------------------------

std::string tenant_path(std::string_view tenant);          // /admin/policies/T
std::string policies_path(const NamespaceName& ns);        // /admin/policies/T/N
std::string local_policies_path(const NamespaceName& ns);  // /admin/local-policies/T/N

// The namespaces of a tenant, also those of the old form that were created.
Task<Result<std::vector<NamespaceName>>> namespaces_of(Admin& admin, std::string tenant);
// NotFound "Namespace not found" (what topic operations say) unless it exists.
Task<Status> require_namespace(Admin& admin, NamespaceName ns);
// The partitions of a partitioned topic, or the topic itself.
Task<Result<std::vector<TopicName>>> parts_of(Admin& admin, TopicName name);
Task<Status> why_not_found(Admin& admin, TopicName name);
Status topic_not_found(const TopicName& name);  // "Topic persistent://t/n/x not found"

// Runs `work` on the topic's shard with the topic loaded; NotFound as above if it does not exist.
using TopicWork = std::function<Answer(std::shared_ptr<Topic>)>;
Answer with_topic(Admin& admin, TopicName name, TopicWork work);
// The same for each part of `name`, one after the other; the first failure ends it, else 204.
Answer with_parts(Admin& admin, TopicName name, TopicWork work);

}  // namespace geminga
