// Lookup over HTTP: which broker serves a topic.
#include <boost/json/object.hpp>
#include <charconv>

#include "server/admin/admin.h"
#include "server/admin/bundles.h"
#include "server/admin/documents.h"

namespace geminga {

namespace {

// Clients may produce to what lookup answers, so it answers for what exists or may be created.
Task<Status> require_lookup(Admin& admin, TopicName name) {
  Status found = co_await require_namespace(admin, name.namespace_name());
  if (!found) co_return found;
  auto allowed = co_await admin.broker.auto_creation_allowed(name);
  if (!allowed) co_return allowed.status();
  if (*allowed) co_return Status::ok();
  auto partitions = co_await admin.broker.partition_count(name);
  if (!partitions) co_return partitions.status();
  if (*partitions > 0) co_return Status::ok();
  auto exists = co_await admin.broker.topic_exists(name);
  if (!exists) co_return exists.status();
  if (!*exists) co_return Status::NotFound("Topic not found " + name.full());
  co_return Status::ok();
}

Answer answer_lookup(Admin& admin, HttpRequest& request, TopicName name) {
  std::string listener(
      request.query_value("listenerName").value_or(request.header("x-pulsar-listenername")));
  if (!listener.empty()) {
    // Advertised listeners are a cluster's: a single broker has none but its own address.
    co_return reason(500, "the broker do not have " + listener + " listener");
  }
  Status found = co_await require_lookup(admin, name);
  if (!found) co_return found;
  const BrokerAddresses& addresses = admin.broker.addresses();
  boost::json::object answer;
  answer["brokerUrl"] = admin.broker.service_url_of(name);
  answer["httpUrl"] = addresses.web_service_url;
  answer["nativeUrl"] = admin.broker.service_url_of(name);
  answer["brokerUrlSsl"] = "";
  co_return json_answer(answer);
}

Answer lookup(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  co_return co_await answer_lookup(admin, request, *name);
}

Answer lookup_v1(Admin& admin, HttpRequest& request) {
  const std::string text = request.segments[3] + "://" + request.param("tenant") + '/' +
                           request.param("cluster") + '/' + request.param("namespace") + '/' +
                           request.param("topic");
  auto name = TopicName::parse(text);
  if (!name) co_return Status::PreconditionFailed("Topic name is not valid");
  co_return co_await answer_lookup(admin, request, *name);
}

Answer lookup_bundle(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto policies = co_await read_document(admin.metadata(), policies_path(name->namespace_name()));
  if (!policies) co_return policies.status();
  if (!policies->has_value()) co_return Status::NotFound("Namespace not found");
  // Not quoted, though it says that it is JSON: so does the original.
  co_return json_text(bundle_of(**policies, name->bundle_hash()));
}

Answer unknown_domain(Admin&, HttpRequest& request) {
  co_return Status::PreconditionFailed("Invalid topic domain '" + request.param("domain") +
                                       "': it is persistent or non-persistent");
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/lookup/v2/topic/:domain/{tenant}/{namespace}/{topic}",
     "The broker that serves a topic", lookup},
    {HttpMethod::Get, "/lookup/v2/topic/:domain/{tenant}/{namespace}/{topic}/bundle",
     "The bundle that a topic is in", lookup_bundle},
    {HttpMethod::Get, "/lookup/v2/destination/:domain/{tenant}/{cluster}/{namespace}/{topic...}",
     "The broker that serves a topic with a name of the old form", lookup_v1},
    {HttpMethod::Get, "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}",
     "Refuses an unknown domain", unknown_domain},
};

}  // namespace

void add_lookup_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
