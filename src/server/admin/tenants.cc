// Tenants: who may administer them and in which clusters they may be, stored under /admin/policies.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/config.h"
#include "server/admin/admin.h"
#include "server/admin/documents.h"
#include "server/admin/namespace_deletion.h"

namespace geminga {

namespace json = boost::json;

namespace {

// What else is kept by tenant.
constexpr const char* kTrees[] = {"/admin/local-policies/", "/admin/partitioned-topics/",
                                  "/admin/topic-policies/", "/managed-ledgers/", "/schemas/"};

// The body as a TenantInfo; every cluster that it names must exist.
Task<Result<json::object>> tenant_info(Admin& admin, json::value body) {
  if (body.is_null()) co_return Status::PreconditionFailed("TenantInfo is null");
  if (!body.is_object()) co_return Status::Protocol("TenantInfo is an object");
  const json::object& given = body.get_object();
  json::object info;
  for (const char* field : {"adminRoles", "allowedClusters"}) {
    const json::value* value = given.if_contains(field);
    if (value == nullptr || value->is_null()) continue;
    if (!value->is_array()) co_return Status::Protocol(std::string(field) + " is a list of names");
    for (const json::value& name : value->get_array()) {
      if (!name.is_string()) co_return Status::Protocol(std::string(field) + " is a list of names");
    }
    info[field] = *value;
  }
  const json::value* clusters = info.if_contains("allowedClusters");
  if (clusters == nullptr) co_return Status::PreconditionFailed("Clusters cannot be null");
  if (clusters->get_array().empty())
    co_return Status::PreconditionFailed("Clusters cannot be empty or blank");
  auto known = co_await admin.metadata().children("/admin/clusters");
  if (!known) co_return known.status();
  for (const json::value& cluster : clusters->get_array()) {
    const std::string name(cluster.get_string());
    if (name.find_first_not_of(' ') == std::string::npos) {
      co_return Status::PreconditionFailed("Clusters cannot be empty or blank");
    }
    if (std::find(known->begin(), known->end(), name) == known->end()) {
      co_return Status::PreconditionFailed("Clusters do not exist");
    }
  }
  co_return info;
}

Answer list(Admin& admin, HttpRequest&) {
  auto names = co_await admin.metadata().children("/admin/policies");
  if (!names) co_return names.status();
  co_return text_list(*names);
}

Answer get(Admin& admin, HttpRequest& request) {
  if (!is_valid_entity_name(request.param("tenant")))
    co_return Status::NotFound("Tenant does not exist");
  auto tenant = co_await read_document(admin.metadata(), tenant_path(request.param("tenant")));
  if (!tenant) co_return tenant.status();
  if (!tenant->has_value()) co_return Status::NotFound("Tenant does not exist");
  co_return json_answer(**tenant);
}

Answer create(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!is_valid_entity_name(request.param("tenant"))) {
    co_return Status::PreconditionFailed("Tenant name is not valid");
  }
  auto info = co_await tenant_info(admin, body.value);
  if (!info) co_return refusal_of(info.status());
  Status created = co_await create_document(admin.metadata(), tenant_path(request.param("tenant")),
                                            std::move(*info));
  if (created.is(ErrorCode::AlreadyExists)) co_return Status::AlreadyExists("Tenant already exist");
  if (!created) co_return created;
  co_return no_content();
}

Answer update(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto info = co_await tenant_info(admin, body.value);
  if (!info) co_return refusal_of(info.status());
  const std::string& name = request.param("tenant");
  const Status missing = Status::NotFound("Tenant " + name + " not found");
  if (!is_valid_entity_name(name)) co_return missing;
  const json::object fields = std::move(*info);
  DocumentChange change = [&fields](json::object& tenant) {
    tenant = fields;
    return Status::ok();
  };
  Status changed = co_await change_document(admin.metadata(), tenant_path(name), change);
  if (changed.is(ErrorCode::NotFound)) co_return missing;
  if (!changed) co_return changed;
  co_return no_content();
}

// Adds those of the old form that were not created, but have topics.
Task<Status> add_old_namespaces(Admin& admin, std::string tenant,
                                std::vector<NamespaceName>& namespaces) {
  const std::string root = "/managed-ledgers/" + tenant;
  auto clusters = co_await admin.metadata().children(root);
  if (!clusters) co_return clusters.status();
  for (const std::string& cluster : *clusters) {
    auto locals = co_await admin.metadata().children(root + '/' + cluster);
    if (!locals) co_return locals.status();
    for (const std::string& local : *locals) {
      auto ns = NamespaceName::of(tenant, cluster + '/' + local);
      // Below a namespace of today are the domains of its topics.
      if (!ns || local == "persistent") continue;
      if (std::find(namespaces.begin(), namespaces.end(), *ns) == namespaces.end())
        namespaces.push_back(std::move(*ns));
    }
  }
  co_return Status::ok();
}

Answer remove(Admin& admin, HttpRequest& request) {
  const std::string name = request.param("tenant");
  const bool force = request.query_flag("force", false);
  if (force && !admin.live()->force_delete_tenant_allowed) {
    co_return Status::NotAllowed("Broker doesn't allow forced deletion of tenants");
  }
  const Status missing = Status::NotFound("Tenant doesn't exist");
  if (!is_valid_entity_name(name)) co_return missing;
  auto exists = co_await admin.metadata().get(tenant_path(name));
  if (!exists) co_return exists.status();
  if (!exists->has_value()) co_return missing;
  auto namespaces = co_await namespaces_of(admin, name);
  if (!namespaces) co_return namespaces.status();
  if (!namespaces->empty() && !force)
    co_return Status::Conflict("The tenant still has active namespaces");
  Status added = co_await add_old_namespaces(admin, name, *namespaces);
  if (!added) co_return added;
  for (const NamespaceName& ns : *namespaces) {
    Status deleted = co_await delete_namespace(admin, ns, true);
    if (!deleted && !deleted.is(ErrorCode::NotFound)) co_return deleted;
  }
  Status removed = co_await admin.metadata().remove(tenant_path(name));
  if (!removed) co_return removed;
  for (const char* tree : kTrees) {
    Status gone = co_await admin.metadata().remove_recursive(tree + name);
    if (!gone) co_return gone;
  }
  co_return no_content();
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/admin/properties", "Names of the tenants", list},
    {HttpMethod::Get, "/admin/v2/tenants", "Names of the tenants", list},
    {HttpMethod::Get, "/admin/v2/tenants/{tenant}", "A tenant's administrators and clusters", get},
    {HttpMethod::Put, "/admin/v2/tenants/{tenant}", "Create a tenant", create},
    {HttpMethod::Post, "/admin/v2/tenants/{tenant}",
     "Change a tenant's administrators and clusters", update},
    {HttpMethod::Delete, "/admin/v2/tenants/{tenant}", "Delete a tenant", remove},
};

}  // namespace

void add_tenant_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
