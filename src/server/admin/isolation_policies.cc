// Isolation policies of a cluster: which brokers serve which namespaces. Stored in one document, as
// Pulsar does; a broker that stands alone serves every namespace whatever they say.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "broker/topics_pattern.h"
#include "server/admin/admin.h"
#include "server/admin/documents.h"

namespace geminga {

namespace json = boost::json;

namespace {

std::string policies_of_cluster(const std::string& cluster) {
  return "/admin/clusters/" + cluster + "/namespaceIsolationPolicies";
}

// NotFound as the oracle says it.
Task<Status> require_cluster(Admin& admin, std::string cluster) {
  const Status missing = Status::NotFound(fmt::format("Cluster {} does not exist.", cluster));
  if (!is_valid_entity_name(cluster)) co_return missing;
  auto known = co_await admin.metadata().get("/admin/clusters/" + cluster);
  if (!known) co_return known.status();
  co_return known->has_value() ? Status::ok() : missing;
}

// All policies of {cluster} by name; NotFound as the oracle says it.
Task<Result<json::object>> policies_in(Admin& admin, HttpRequest& request) {
  const std::string& cluster = request.param("cluster");
  GM_CO_RETURN_IF_ERROR(co_await require_cluster(admin, cluster));
  auto document = co_await read_document(admin.metadata(), policies_of_cluster(cluster));
  if (!document) co_return document.status();
  if (!document->has_value()) {
    co_return Status::NotFound(
        fmt::format("NamespaceIsolationPolicies for cluster {} does not exist", cluster));
  }
  co_return std::move(**document);
}

// Texts of a list that must be there; each is a regular expression.
Result<json::array> patterns(const json::object& given, const char* field, bool may_be_empty) {
  const json::value* list = given.if_contains(field);
  const bool there = list != nullptr && list->is_array();
  if (!there || (list->get_array().empty() && !may_be_empty)) {
    return Status::InvalidArgument(
        fmt::format("an isolation policy needs the list '{}' of regular expressions", field));
  }
  for (const json::value& item : list->get_array()) {
    if (!item.is_string()) return Status::Protocol(fmt::format("{} is a list of texts", field));
    const auto compiled = TopicsPattern::compile(std::string_view(item.get_string()));
    if (!compiled) {
      return Status::InvalidArgument(fmt::format("{}: {}", field, compiled.status().message()));
    }
  }
  return list->get_array();
}

// {policy_type: min_available, parameters: {min_limit, usage_threshold}}
Result<json::object> failover(const json::object& given) {
  const json::value* value = given.if_contains("auto_failover_policy");
  if (value == nullptr || !value->is_object()) {
    return Status::InvalidArgument("an isolation policy needs its 'auto_failover_policy'");
  }
  const json::object& policy = value->get_object();
  const json::value* type = policy.if_contains("policy_type");
  if (type == nullptr || !type->is_string() || type->get_string() != "min_available") {
    return Status::InvalidArgument("the policy_type of an auto_failover_policy is min_available");
  }
  const json::value* parameters = policy.if_contains("parameters");
  for (const char* name : {"min_limit", "usage_threshold"}) {
    if (parameters == nullptr || !parameters->is_object() ||
        !parameters->get_object().contains(name)) {
      return Status::InvalidArgument(
          fmt::format("an auto_failover_policy of min_available needs the parameter '{}'", name));
    }
  }
  json::object out;
  out["parameters"] = *parameters;
  out["policy_type"] = *type;
  return out;
}

Result<json::object> read_policy(const json::value& body) {
  if (!body.is_object()) return Status::Protocol("an isolation policy is an object");
  const json::object& given = body.get_object();
  json::object out;
  GM_ASSIGN_OR_RETURN(out["namespaces"], patterns(given, "namespaces", false));
  GM_ASSIGN_OR_RETURN(out["primary"], patterns(given, "primary", false));
  GM_ASSIGN_OR_RETURN(out["secondary"], patterns(given, "secondary", true));
  GM_ASSIGN_OR_RETURN(out["auto_failover_policy"], failover(given));
  if (const json::value* scope = given.if_contains("unload_scope"); scope && scope->is_string())
    out["unload_scope"] = *scope;
  return out;
}

bool names_broker(const json::object& policy, const char* field, const std::string& broker) {
  const json::value* list = policy.if_contains(field);
  if (list == nullptr || !list->is_array()) return false;
  for (const json::value& item : list->get_array()) {
    if (!item.is_string()) continue;
    const auto pattern = TopicsPattern::compile(std::string_view(item.get_string()));
    if (pattern && pattern->matches_text(broker)) return true;
  }
  return false;
}

// What the policies say of one broker; the last policy that names it gives its name.
json::object broker_view(const json::object& policies, const std::string& broker) {
  json::object out;
  out["brokerName"] = broker;
  json::array namespaces;
  bool primary = false;
  for (const auto& entry : policies) {
    if (!entry.value().is_object()) continue;
    const json::object& policy = entry.value().get_object();
    const bool first = names_broker(policy, "primary", broker);
    if (!first && !names_broker(policy, "secondary", broker)) continue;
    out["policyName"] = entry.key();
    primary = first;
    const json::value* regexes = policy.if_contains("namespaces");
    if (regexes == nullptr || !regexes->is_array()) continue;
    for (const json::value& regex : regexes->get_array()) namespaces.push_back(regex);
  }
  out["namespaceRegex"] = std::move(namespaces);
  out["primary"] = primary;
  return out;
}

Answer list(Admin& admin, HttpRequest& request) {
  auto policies = co_await policies_in(admin, request);
  if (!policies) co_return policies.status();
  co_return json_answer(*policies);
}

Answer get(Admin& admin, HttpRequest& request) {
  auto policies = co_await policies_in(admin, request);
  if (!policies) co_return policies.status();
  const json::value* policy = policies->if_contains(request.param("policy"));
  if (policy == nullptr) {
    co_return Status::NotFound(fmt::format("Cannot find NamespaceIsolationPolicy {} for cluster {}",
                                           request.param("policy"), request.param("cluster")));
  }
  co_return json_answer(*policy);
}

Answer set(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto policy = read_policy(body.value);
  if (!policy) co_return refusal_of(policy.status());
  const Status there = co_await require_cluster(admin, request.param("cluster"));
  if (!there) co_return there;
  const std::string name = request.param("policy");
  const json::object stored = std::move(*policy);
  DocumentChange change = [&name, &stored](json::object& policies) {
    policies[name] = stored;
    return Status::ok();
  };
  Status changed = co_await change_document(
      admin.metadata(), policies_of_cluster(request.param("cluster")), std::move(change), true);
  if (!changed) co_return changed;
  co_return no_content();
}

Answer remove(Admin& admin, HttpRequest& request) {
  auto present = co_await policies_in(admin, request);
  if (!present) co_return present.status();
  const std::string name = request.param("policy");
  DocumentChange change = [&name](json::object& policies) {
    policies.erase(name);
    return Status::ok();
  };
  Status changed = co_await change_document(
      admin.metadata(), policies_of_cluster(request.param("cluster")), std::move(change));
  if (!changed && !changed.is(ErrorCode::NotFound)) co_return changed;
  co_return no_content();
}

Answer list_brokers(Admin& admin, HttpRequest& request) {
  auto policies = co_await policies_in(admin, request);
  if (!policies) co_return policies.status();
  json::array brokers;
  brokers.push_back(broker_view(*policies, admin.broker_id()));
  co_return json_answer(brokers);
}

Answer get_broker(Admin& admin, HttpRequest& request) {
  auto policies = co_await policies_in(admin, request);
  if (!policies) co_return policies.status();
  co_return json_answer(broker_view(*policies, request.param("broker")));
}

#define GM_POLICIES "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_POLICIES, "Isolation policies of a cluster", list},
    {HttpMethod::Get, GM_POLICIES "/brokers", "Brokers with what isolation policies say of them",
     list_brokers},
    {HttpMethod::Get, GM_POLICIES "/brokers/{broker}", "What isolation policies say of a broker",
     get_broker},
    {HttpMethod::Get, GM_POLICIES "/{policy}", "An isolation policy", get},
    {HttpMethod::Post, GM_POLICIES "/{policy}", "Set an isolation policy", set},
    {HttpMethod::Delete, GM_POLICIES "/{policy}", "Remove an isolation policy", remove},
};

}  // namespace

void add_isolation_policy_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
