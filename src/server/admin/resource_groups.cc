// Resource groups: named rates that namespaces refer to. Stored and shown, below
// /admin/resourcegroups.
#include <boost/json/object.hpp>

#include "server/admin/admin.h"
#include "server/admin/namespace_change.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr const char* kRates[] = {"publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs",
                                  "dispatchRateInBytes"};
constexpr const char* kField = "resource_group_name";  // of a namespace's policies

std::string group_path(const std::string& name) { return "/admin/resourcegroups/" + name; }
Status no_group() { return Status::NotFound("ResourceGroup does not exist"); }

Task<Result<bool>> exists(Admin& admin, std::string name) {
  if (!is_valid_entity_name(name)) co_return false;
  auto node = co_await admin.metadata().get(group_path(name));
  if (!node) co_return node.status();
  co_return node->has_value();
}

Answer list(Admin& admin, HttpRequest&) {
  auto names = co_await admin.metadata().children("/admin/resourcegroups");
  if (!names) co_return names.status();
  co_return text_list(*names);
}

Answer get(Admin& admin, HttpRequest& request) {
  auto known = co_await exists(admin, request.param("group"));
  if (!known) co_return known.status();
  if (!*known) co_return no_group();
  auto group = co_await read_document(admin.metadata(), group_path(request.param("group")));
  if (!group) co_return group.status();
  if (!group->has_value()) co_return no_group();
  co_return json_answer(**group);
}

// Creates it, or changes the rates that the body names.
Answer set(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!is_valid_entity_name(request.param("group")))
    co_return Status::PreconditionFailed("ResourceGroup name is not valid");
  if (!body.value.is_object())
    co_return refusal_of(Status::Protocol("a resource group is an object of rates"));
  const json::object given = std::move(body.value.get_object());
  for (const char* rate : kRates) {
    const json::value* value = given.if_contains(rate);
    if (value != nullptr && !value->is_null() && !value->is_int64()) {
      co_return refusal_of(
          Status::Protocol(std::string("Cannot deserialize value of type `long` for ") + rate));
    }
  }
  DocumentChange change = [&given](json::object& group) {
    for (const char* rate : kRates) {
      const json::value* value = given.if_contains(rate);
      if (value != nullptr && value->is_int64()) {
        group[rate] = *value;
      } else if (!group.contains(rate)) {
        group[rate] = -1;
      }
    }
    return Status::ok();
  };
  Status changed = co_await change_document(admin.metadata(), group_path(request.param("group")),
                                            std::move(change), true);
  if (!changed) co_return changed;
  co_return no_content();
}

Task<Result<bool>> in_use(Admin& admin, std::string group) {
  auto tenants = co_await admin.metadata().children("/admin/policies");
  if (!tenants) co_return tenants.status();
  for (const std::string& tenant : *tenants) {
    auto namespaces = co_await namespaces_of(admin, tenant);
    if (!namespaces) co_return namespaces.status();
    for (const NamespaceName& ns : *namespaces) {
      auto policies = co_await read_document(admin.metadata(), policies_path(ns));
      if (!policies) co_return policies.status();
      const json::value* used = policies->has_value() ? member(**policies, kField) : nullptr;
      if (used != nullptr && used->is_string() && used->get_string() == group) co_return true;
    }
  }
  co_return false;
}

Answer remove(Admin& admin, HttpRequest& request) {
  auto known = co_await exists(admin, request.param("group"));
  if (!known) co_return known.status();
  if (!*known) co_return no_group();
  auto used = co_await in_use(admin, request.param("group"));
  if (!used) co_return used.status();
  if (*used) co_return Status::PreconditionFailed("ResourceGroup is in use");
  Status removed = co_await admin.metadata().remove(group_path(request.param("group")));
  if (!removed && !removed.is(ErrorCode::NotFound)) co_return removed;
  co_return no_content();
}

// --- of a namespace ---

Answer get_of_namespace(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const json::value* group = member(*policies, kField);
  if (group == nullptr || !group->is_string()) co_return ok_empty();
  // Bare text under the name of JSON, as the original answers.
  co_return json_text(std::string(group->get_string()));
}

Answer set_of_namespace(Admin& admin, HttpRequest& request) {
  const std::string group = request.param("group");
  auto known = co_await exists(admin, group);
  if (!known) co_return known.status();
  if (!*known) co_return Status::PreconditionFailed("ResourceGroup does not exist");
  DocumentChange change = [&group](json::object& policies) {
    policies[kField] = group;
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, std::move(change));
}

Answer remove_of_namespace(Admin& admin, HttpRequest& request) {
  DocumentChange change = [](json::object& policies) {
    policies.erase(kField);
    return Status::ok();
  };
  co_return co_await change_namespace(admin, request, std::move(change));
}

#define GM_GROUPS "/admin/v2/resourcegroups"
#define GM_NS "/admin/v2/namespaces/{tenant}/{namespace}/resourcegroup"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_GROUPS, "Names of the resource groups", list},
    {HttpMethod::Get, GM_GROUPS "/{group}", "Rates of a resource group", get},
    {HttpMethod::Put, GM_GROUPS "/{group}", "Create a resource group, or change its rates", set},
    {HttpMethod::Delete, GM_GROUPS "/{group}", "Delete a resource group", remove},
    {HttpMethod::Get, GM_NS, "The namespace's resource group", get_of_namespace},
    {HttpMethod::Post, GM_NS "/{group}", "Set the namespace's resource group", set_of_namespace},
    {HttpMethod::Delete, GM_NS, "Take the namespace out of its resource group",
     remove_of_namespace},
};

}  // namespace

void add_resource_group_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
