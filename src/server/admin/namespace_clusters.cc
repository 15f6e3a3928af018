// Where a namespace may live: its clusters, affinity groups and migration.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "server/admin/admin.h"
#include "server/admin/namespace_change.h"

namespace geminga {

namespace json = boost::json;

namespace {

Answer set_migrated(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  const bool migrated = body.value.is_bool() && body.value.get_bool();
  DocumentChange set = [migrated](json::object& policies) {
    policies["migrated"] = migrated;
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, set);
}

Answer get_clusters(Admin& admin, HttpRequest& request, const char* field) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const json::value* clusters = member(*policies, field);
  co_return json_answer(clusters != nullptr ? *clusters : json::value(json::array()));
}

Answer set_clusters(Admin& admin, HttpRequest& request, const char* field) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  const bool replication = std::string_view(field) == "replication_clusters";
  if (!body.value.is_array() || (replication && body.value.get_array().empty())) {
    co_return Status::PreconditionFailed("ClusterIds should not be null or empty");
  }
  auto known = co_await admin.metadata().children("/admin/clusters");
  if (!known) co_return known.status();
  for (const json::value& cluster : body.value.get_array()) {
    const std::string name =
        cluster.is_string() ? std::string(cluster.get_string()) : std::string();
    if (std::find(known->begin(), known->end(), name) == known->end()) {
      co_return Status::Authorization("Invalid cluster id: " + name);
    }
  }
  const json::array clusters = body.value.get_array();
  DocumentChange set = [field, replication, &clusters](json::object& policies) {
    policies[field] = clusters;
    if (replication) {
      policies.erase("clusterThatCanDeleteNamespace");
      if (clusters.size() == 1) policies["clusterThatCanDeleteNamespace"] = clusters[0];
    }
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, set, 200);
}

Answer get_replication(Admin& admin, HttpRequest& request) {
  return get_clusters(admin, request, "replication_clusters");
}
Answer set_replication(Admin& admin, HttpRequest& request) {
  return set_clusters(admin, request, "replication_clusters");
}
Answer get_allowed(Admin& admin, HttpRequest& request) {
  return get_clusters(admin, request, "allowed_clusters");
}
Answer set_allowed(Admin& admin, HttpRequest& request) {
  return set_clusters(admin, request, "allowed_clusters");
}

// Kept apart from the policies, in /admin/local-policies.
Answer get_local(Admin& admin, HttpRequest& request, const char* field, bool bare) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto local = co_await read_document(admin.metadata(), local_policies_path(*ns));
  if (!local) co_return local.status();
  const json::value* value = local->has_value() ? member(**local, field) : nullptr;
  if (value == nullptr) co_return no_content();
  if (bare && value->is_string()) co_return json_text(std::string(value->get_string()));
  co_return json_answer(*value);
}

Answer set_local(Admin& admin, HttpRequest& request, const char* field, json::value value) {
  auto policies = co_await namespace_document(admin, request);  // must exist
  if (!policies) co_return policies.status();
  auto ns = namespace_of(request);
  DocumentChange set = [field, &value](json::object& local) {
    if (value.is_null()) {
      local.erase(field);
    } else {
      local[field] = value;
    }
    return Status::ok();
  };
  Status changed = co_await change_document(admin.metadata(), local_policies_path(*ns), set, true);
  if (!changed) co_return changed;
  co_return no_content();
}

Answer get_anti_affinity(Admin& admin, HttpRequest& request) {
  return get_local(admin, request, "namespaceAntiAffinityGroup", true);
}
// The tools send the bare name under the name of JSON.
Answer set_anti_affinity(Admin& admin, HttpRequest& request) {
  std::string group = request.body;
  if (group.size() >= 2 && group.front() == '"' && group.back() == '"')
    group = group.substr(1, group.size() - 2);
  if (group.find_first_not_of(' ') == std::string::npos) {
    co_return Status::PreconditionFailed("antiAffinityGroup can't be empty");
  }
  const json::value name(group);
  co_return co_await set_local(admin, request, "namespaceAntiAffinityGroup", name);
}
Answer remove_anti_affinity(Admin& admin, HttpRequest& request) {
  return set_local(admin, request, "namespaceAntiAffinityGroup", json::value());
}

// Namespaces of a tenant that are in a group.
Answer list_anti_affinity(Admin& admin, HttpRequest& request) {
  const std::string tenant(
      request.query_value("tenant").value_or(request.query_value("property").value_or("")));
  if (!is_valid_entity_name(tenant))
    co_return Status::PreconditionFailed("Tenant name is not valid");
  const std::string& cluster = request.param("cluster");
  auto known = co_await admin.metadata().children("/admin/clusters");
  if (!known) co_return known.status();
  if (std::find(known->begin(), known->end(), cluster) == known->end())
    co_return Status::NotFound("Cluster " + cluster + " does not exist.");
  auto namespaces = co_await namespaces_of(admin, tenant);
  if (!namespaces) co_return namespaces.status();
  std::vector<std::string> names;
  for (const NamespaceName& ns : *namespaces) {
    auto local = co_await read_document(admin.metadata(), local_policies_path(ns));
    if (!local) co_return local.status();
    const json::value* group =
        local->has_value() ? member(**local, "namespaceAntiAffinityGroup") : nullptr;
    if (group != nullptr && group->is_string() && group->get_string() == request.param("group"))
      names.push_back(ns.full());
  }
  co_return text_list(names);
}

Answer get_bookie_affinity(Admin& admin, HttpRequest& request) {
  return get_local(admin, request, "bookieAffinityGroup", false);
}
Answer set_bookie_affinity(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  co_return co_await set_local(admin, request, "bookieAffinityGroup", body.value);
}
Answer remove_bookie_affinity(Admin& admin, HttpRequest& request) {
  return set_local(admin, request, "bookieAffinityGroup", json::value());
}

#define GM_NS "/admin/v2/namespaces/{tenant}/{namespace}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Post, GM_NS "/migration", "Mark the namespace as migrated or not", set_migrated},
    {HttpMethod::Get, GM_NS "/replication", "Clusters that the namespace is replicated to",
     get_replication},
    {HttpMethod::Post, GM_NS "/replication", "Set the clusters that the namespace is replicated to",
     set_replication},
    {HttpMethod::Get, GM_NS "/allowedClusters", "Clusters that topics may be replicated to",
     get_allowed},
    {HttpMethod::Post, GM_NS "/allowedClusters",
     "Set the clusters that topics may be replicated to", set_allowed},
    {HttpMethod::Get, GM_NS "/antiAffinity", "Anti-affinity group", get_anti_affinity},
    {HttpMethod::Post, GM_NS "/antiAffinity", "Set the anti-affinity group", set_anti_affinity},
    {HttpMethod::Delete, GM_NS "/antiAffinity", "Remove the anti-affinity group",
     remove_anti_affinity},
    {HttpMethod::Get, "/admin/v2/namespaces/{cluster}/antiAffinity/{group}",
     "Namespaces of an anti-affinity group", list_anti_affinity},
    {HttpMethod::Get, "/admin/namespaces/{cluster}/antiAffinity/{group}",
     "Namespaces of an anti-affinity group", list_anti_affinity},
    {HttpMethod::Get, GM_NS "/persistence/bookieAffinity", "Bookie affinity groups",
     get_bookie_affinity},
    {HttpMethod::Post, GM_NS "/persistence/bookieAffinity", "Set the bookie affinity groups",
     set_bookie_affinity},
    {HttpMethod::Delete, GM_NS "/persistence/bookieAffinity", "Remove the bookie affinity groups",
     remove_bookie_affinity},
};

}  // namespace

void add_namespace_cluster_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
