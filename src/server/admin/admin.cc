#include "server/admin/admin.h"
#include "server/admin/openapi.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "base/config.h"
#include "base/log.h"
#include "server/json_text.h"
#include "server/metrics_page.h"

namespace geminga {

namespace {

void add_one(HttpRouter& router, Admin& admin, const AdminRoute& route, std::string pattern) {
  HttpHandler handler = [&admin, call = route.handler](HttpRequest& request) {
    return call(admin, request);
  };
  router.add({route.method, std::move(pattern), route.summary, std::move(handler)});
}

HttpResponse bare_text(unsigned status, std::string_view text, std::string_view type) {
  HttpResponse response;
  response.status = status;
  response.content_type = type;
  response.body = text;
  return response;
}

}  // namespace

std::string Admin::cluster() const { return config().cluster_name; }

std::string Admin::broker_id() const {
  const std::string& url = broker.addresses().web_service_url;
  const std::size_t scheme = url.find("://");
  return scheme == std::string::npos ? url : url.substr(scheme + 3);
}

void add_admin_routes(HttpRouter& router, Admin& admin) {
  add_lookup_routes(router, admin);
  add_broker_routes(router, admin);
  add_cluster_routes(router, admin);
  add_tenant_routes(router, admin);
  add_namespace_routes(router, admin);
  add_namespace_policy_routes(router, admin);
  add_namespace_cluster_routes(router, admin);
  add_permission_routes(router, admin);
  add_topic_routes(router, admin);
  add_topic_stats_routes(router, admin);
  add_compaction_routes(router, admin);
  add_topic_policy_routes(router, admin);
  add_subscription_routes(router, admin);
  add_message_routes(router, admin);
  add_schema_routes(router, admin);
  add_transaction_routes(router, admin);
  add_metrics_routes(router, admin);
  add_bundle_routes(router, admin);
  add_isolation_policy_routes(router, admin);
  add_resource_group_routes(router, admin);
  add_resource_quota_routes(router, admin);
  add_bookie_routes(router, admin);
  add_broker_stats_routes(router, admin);
  add_broker_load_routes(router, admin);
  add_configuration_routes(router, admin);
  add_topic_record_routes(router, admin);
  add_missing_routes(router);  // it fills the gaps
  add_openapi_route(router);   // the last: it describes them all
}

void add_routes(HttpRouter& router, Admin& admin, std::span<const AdminRoute> routes) {
  constexpr std::string_view kDomain = ":domain";
  constexpr std::string_view kTopic = "/admin/v2/:domain/{tenant}/{namespace}/{topic}";
  constexpr std::string_view kNamespace = "/admin/v2/namespaces/{tenant}/{namespace}/";
  constexpr char kOldTopic[] = "/{tenant}/{cluster}/{namespace}/{topic}";
  for (const AdminRoute& route : routes) {
    const std::string pattern = route.pattern;
    const std::size_t at = pattern.find(kDomain);
    if (at == std::string::npos) {
      add_one(router, admin, route, pattern);
      if (pattern.starts_with(kNamespace)) {
        add_one(router, admin, route,
                "/admin/namespaces/{tenant}/{cluster}/{namespace}/" +
                    pattern.substr(kNamespace.size()));
      }
      continue;
    }
    for (const std::string domain : {"persistent", "non-persistent"}) {
      add_one(router, admin, route, std::string(pattern).replace(at, kDomain.size(), domain));
      if (pattern.starts_with(kTopic)) {
        add_one(router, admin, route,
                "/admin/" + domain + kOldTopic + pattern.substr(kTopic.size()));
      }
    }
  }
}

JsonBody json_body(const HttpRequest& request, EmptyBody empty) {
  JsonBody body;
  if (request.body.empty()) {
    if (empty == EmptyBody::Refused) {
      body.refusal = bare_text(400, "The request entity cannot be empty.", "application/json");
    }
    return body;
  }
  const std::string_view type = request.header("content-type");
  if (type.find("json") == std::string_view::npos) {
    body.refusal = server_page(request, 415);
    return body;
  }
  auto value = parse_json(request.body);
  if (!value) {
    body.refusal = bare_text(400, value.status().message(), "text/plain");
    return body;
  }
  body.value = std::move(*value);
  return body;
}

HttpResponse refusal_of(const Status& status) {
  if (status.is(ErrorCode::Protocol)) return bare_text(400, status.message(), "text/plain");
  return reason(status);
}

namespace {
// "namespace", or of old "cluster/namespace".
std::string local_namespace(const HttpRequest& request) {
  const std::string& cluster = request.param("cluster");
  return cluster.empty() ? request.param("namespace") : cluster + '/' + request.param("namespace");
}
}  // namespace

Result<NamespaceName> namespace_of(const HttpRequest& request) {
  auto name = NamespaceName::of(request.param("tenant"), local_namespace(request));
  if (!name || request.param("namespace").find('/') != std::string::npos)
    return Status::PreconditionFailed("Namespace name is not valid");
  return name;
}

Result<TopicName> topic_of(const HttpRequest& request) {
  // /admin/v2/<domain>/..., /lookup/v2/topic/<domain>/..., and of old /admin/<domain>/...
  std::size_t at = request.segments.front() == "lookup" ? 3 : 2;
  if (!request.param("cluster").empty()) at = 1;
  const bool persistent = request.segments.size() > at && request.segments[at] == "persistent";
  auto ns = NamespaceName::of(request.param("tenant"), local_namespace(request));
  if (!ns) return Status::PreconditionFailed("Topic name is not valid");
  auto name = TopicName::of(persistent ? TopicDomain::Persistent : TopicDomain::NonPersistent, *ns,
                            request.param("topic"));
  if (!name) return Status::PreconditionFailed("Topic name is not valid");
  return name;
}

HttpResponse json_answer(const boost::json::value& value, unsigned status) {
  return json_text(to_json(value), status);
}

HttpResponse text_list(const std::vector<std::string>& texts) {
  std::string body;
  char before = '[';
  for (const std::string& text : texts) {
    body += before;
    append_json_string(body, text);
    before = ',';
  }
  body += texts.empty() ? "[]" : "]";
  return json_text(std::move(body));
}

std::string tenant_path(std::string_view tenant) {
  return "/admin/policies/" + std::string(tenant);
}
std::string policies_path(const NamespaceName& ns) { return "/admin/policies/" + ns.full(); }
std::string local_policies_path(const NamespaceName& ns) {
  return "/admin/local-policies/" + ns.full();
}

Task<Result<std::vector<NamespaceName>>> namespaces_of(Admin& admin, std::string tenant) {
  std::vector<NamespaceName> out;
  auto children = co_await admin.metadata().children(tenant_path(tenant));
  if (!children) co_return children.status();
  for (const std::string& child : *children) {
    auto node = co_await admin.metadata().get(tenant_path(tenant) + '/' + child);
    if (!node) co_return node.status();
    // A node without a value is the cluster in names of the old form.
    const bool cluster = node->has_value() && (*node)->value.empty();
    std::vector<std::string> locals{child};
    if (cluster) {
      auto below = co_await admin.metadata().children(tenant_path(tenant) + '/' + child);
      if (!below) co_return below.status();
      locals = std::move(*below);
      for (std::string& local : locals) local = child + '/' + local;
    }
    for (const std::string& local : locals) {
      auto name = NamespaceName::of(tenant, local);
      if (name) out.push_back(std::move(*name));
    }
  }
  co_return out;
}

Task<Status> require_namespace(Admin& admin, NamespaceName ns) {
  auto node = co_await admin.metadata().get(policies_path(ns));
  if (!node) co_return node.status();
  if (!node->has_value() && !ns.exists_by_itself())
    co_return Status::NotFound("Namespace not found");
  co_return Status::ok();
}

Task<Result<std::vector<TopicName>>> parts_of(Admin& admin, TopicName name) {
  std::vector<TopicName> parts;
  if (!name.is_partition()) {
    auto count = co_await admin.broker.partition_count(name);
    if (!count) co_return count.status();
    for (std::int32_t i = 0; i < *count; ++i) parts.push_back(name.partition(i));
  }
  if (parts.empty()) parts.push_back(name);
  co_return parts;
}

Status topic_not_found(const TopicName& name) {
  return Status::NotFound(fmt::format("Topic {} not found", name.full()));
}

// The text that the oracle has for a topic that is not there.
Task<Status> why_not_found(Admin& admin, TopicName name) {
  Status ns = co_await require_namespace(admin, name.namespace_name());
  if (!ns) co_return ns;
  if (!name.is_partition()) co_return topic_not_found(name);
  auto count = co_await admin.broker.partition_count(name.base());
  if (!count) co_return count.status();
  if (*count > 0) co_return Status::NotFound("Topic partitions were not yet created");
  co_return Status::NotFound(fmt::format("Partitioned Topic {} not found", name.base_full()));
}

Answer with_topic(Admin& admin, TopicName name, TopicWork work) {
  Broker& broker = admin.broker;
  auto on_its_shard = [&broker, name, work = std::move(work)]() -> Answer {
    Broker::TopicOptions options;
    auto topic = co_await broker.topic(name, options);
    // Why is asked below, on the connection's shard.
    if (topic.is(ErrorCode::NotFound)) co_return Status::TopicNotFound(name.full());
    if (!topic) co_return topic.status();
    co_return co_await work(*topic);
  };
  Result<HttpResponse> answer = co_await on_shard(broker.shard_of(name), std::move(on_its_shard));
  if (answer.is(ErrorCode::TopicNotFound)) co_return co_await why_not_found(admin, name);
  co_return answer;
}

Answer with_parts(Admin& admin, TopicName name, TopicWork work) {
  auto parts = co_await parts_of(admin, name);
  if (!parts) co_return parts.status();
  for (const TopicName& part : *parts) {
    auto answer = co_await with_topic(admin, part, work);
    if (!answer || answer->status >= 300) co_return answer;
  }
  co_return no_content();
}

}  // namespace geminga
