// Permissions: which role may do what in a namespace, on a topic, with a subscription. Stored in
// the namespace's policies (auth_policies); enforced where authorization is.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "server/admin/admin.h"
#include "server/admin/namespace_change.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr std::string_view kActions[] = {"consume", "produce",  "sources",
                                         "sinks",   "packages", "functions"};

Status no_namespace() { return Status::NotFound("Namespace does not exist"); }

json::object& auth_part(json::object& policies, std::string_view part) {
  return object_in(object_in(policies, "auth_policies"), part);
}

// The actions of a body, in the order that Pulsar shows them; what is no action is left out.
Result<json::array> actions_of(const json::value& body) {
  if (!body.is_array()) return Status::InvalidArgument("Actions should not be null");
  const json::array& given = body.get_array();
  json::array actions;
  for (const std::string_view action : kActions) {
    if (std::find(given.begin(), given.end(), json::value(action)) != given.end())
      actions.push_back(json::value(action));
  }
  return actions;
}

Task<Result<json::object>> policies_of(Admin& admin, NamespaceName ns) {
  auto policies = co_await read_document(admin.metadata(), policies_path(ns));
  if (!policies) co_return policies.status();
  if (!policies->has_value()) co_return no_namespace();
  co_return std::move(**policies);
}

Answer change(Admin& admin, NamespaceName ns, DocumentChange apply) {
  Status changed = co_await change_document(admin.metadata(), policies_path(ns), std::move(apply));
  if (changed.is(ErrorCode::NotFound)) co_return no_namespace();
  if (!changed) co_return changed;
  co_return no_content();
}

Answer get_namespace(Admin& admin, HttpRequest& request) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto policies = co_await policies_of(admin, *ns);
  if (!policies) co_return policies.status();
  co_return json_answer(auth_part(*policies, "namespace_auth"));
}

Answer grant_namespace(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto actions = actions_of(body.value);
  if (!actions) co_return actions.status();
  const std::string role = request.param("role");
  const json::array granted = std::move(*actions);
  co_return co_await change(admin, *ns, [&role, &granted](json::object& policies) {
    auth_part(policies, "namespace_auth")[role] = granted;
    return Status::ok();
  });
}

Answer revoke_namespace(Admin& admin, HttpRequest& request) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  const std::string role = request.param("role");
  co_return co_await change(admin, *ns, [&role](json::object& policies) {
    auth_part(policies, "namespace_auth").erase(role);
    return Status::ok();
  });
}

Answer get_subscriptions(Admin& admin, HttpRequest& request) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto policies = co_await policies_of(admin, *ns);
  if (!policies) co_return policies.status();
  co_return json_answer(auth_part(*policies, "subscription_auth_roles"));
}

Answer grant_subscription(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  if (!body.value.is_array()) co_return refusal_of(Status::Protocol("roles are a list of names"));
  const std::string subscription = request.param("subscription");
  const json::array roles = body.value.get_array();
  co_return co_await change(admin, *ns, [&subscription, &roles](json::object& policies) {
    auth_part(policies, "subscription_auth_roles")[subscription] = roles;
    return Status::ok();
  });
}

Answer revoke_subscription(Admin& admin, HttpRequest& request) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  const std::string subscription = request.param("subscription");
  const std::string role = request.param("role");
  co_return co_await change(admin, *ns, [&subscription, &role](json::object& policies) {
    json::object& all = auth_part(policies, "subscription_auth_roles");
    json::value* roles = all.if_contains(subscription);
    if (roles == nullptr || !roles->is_array()) return Status::ok();
    json::array& list = roles->get_array();
    list.erase(std::remove(list.begin(), list.end(), json::value(role)), list.end());
    if (list.empty()) all.erase(subscription);
    return Status::ok();
  });
}

// Those of the namespace, and over them those of the topic.
Answer get_topic(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto policies = co_await policies_of(admin, name->namespace_name());
  if (!policies) co_return policies.status();
  json::object all = auth_part(*policies, "namespace_auth");
  const json::value* own = auth_part(*policies, "destination_auth").if_contains(name->base_full());
  if (own != nullptr && own->is_object()) {
    for (const auto& role : own->get_object()) {
      json::value& actions = all[role.key()];
      if (!actions.is_array()) actions = json::array();
      for (const json::value& action : role.value().get_array()) {
        json::array& list = actions.get_array();
        if (std::find(list.begin(), list.end(), action) == list.end()) list.push_back(action);
      }
    }
  }
  co_return json_answer(all);
}

DocumentChange grant_on(const std::string& topic, const std::string& role,
                        const json::array& actions) {
  return [&topic, &role, &actions](json::object& policies) {
    object_in(auth_part(policies, "destination_auth"), topic)[role] = actions;
    return Status::ok();
  };
}

DocumentChange revoke_on(const std::string& topic, const std::string& role) {
  return [&topic, &role](json::object& policies) {
    json::object& topics = auth_part(policies, "destination_auth");
    json::value* roles = topics.if_contains(topic);
    if (roles == nullptr || !roles->is_object()) return Status::ok();
    roles->get_object().erase(role);
    if (roles->get_object().empty()) topics.erase(topic);
    return Status::ok();
  };
}

Answer grant_topic(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto actions = actions_of(body.value);
  if (!actions) co_return actions.status();
  const std::string topic = name->base_full();
  const std::string role = request.param("role");
  const json::array granted = std::move(*actions);
  co_return co_await change(admin, name->namespace_name(), grant_on(topic, role, granted));
}

Answer revoke_topic(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  const std::string topic = name->base_full();
  const std::string role = request.param("role");
  co_return co_await change(admin, name->namespace_name(), revoke_on(topic, role));
}

// [{topic, role, actions}] of several topics in one call.
Answer change_topics(Admin& admin, HttpRequest& request, bool grant) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_array()) co_return refusal_of(Status::Protocol("permissions are a list"));
  for (const json::value& item : body.value.get_array()) {
    const json::value* topic = item.is_object() ? item.get_object().if_contains("topic") : nullptr;
    const json::value* role = item.is_object() ? item.get_object().if_contains("role") : nullptr;
    if (topic == nullptr || role == nullptr || !topic->is_string() || !role->is_string()) {
      co_return refusal_of(Status::Protocol("a permission names its topic and role"));
    }
    auto name = TopicName::parse(std::string_view(topic->get_string()));
    if (!name) co_return Status::PreconditionFailed(name.status().message());
    const std::string full = name->base_full();
    const std::string who(role->get_string());
    json::array actions;
    if (grant) {
      const json::value* given = item.get_object().if_contains("actions");
      auto read = actions_of(given != nullptr ? *given : json::value());
      if (!read) co_return read.status();
      actions = std::move(*read);
    }
    DocumentChange apply = grant ? grant_on(full, who, actions) : revoke_on(full, who);
    auto answer = co_await change(admin, name->namespace_name(), std::move(apply));
    if (!answer) co_return answer;
  }
  co_return no_content();
}

Answer grant_topics(Admin& admin, HttpRequest& request) {
  return change_topics(admin, request, true);
}
Answer revoke_topics(Admin& admin, HttpRequest& request) {
  return change_topics(admin, request, false);
}

#define GM_NS "/admin/v2/namespaces/{tenant}/{namespace}/permissions"
#define GM_TOPIC "/admin/v2/:domain/{tenant}/{namespace}/{topic}/permissions"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_NS, "Permissions of a namespace", get_namespace},
    {HttpMethod::Post, GM_NS "/{role}", "Grant a role actions in a namespace", grant_namespace},
    {HttpMethod::Delete, GM_NS "/{role}", "Revoke a role's permissions in a namespace",
     revoke_namespace},
    {HttpMethod::Get, GM_NS "/subscription", "Roles that may use a subscription",
     get_subscriptions},
    {HttpMethod::Post, GM_NS "/subscription/{subscription}", "Let roles use a subscription",
     grant_subscription},
    {HttpMethod::Delete, GM_NS "/{subscription}/{role}", "Take a subscription from a role",
     revoke_subscription},
    {HttpMethod::Get, GM_TOPIC, "Permissions on a topic", get_topic},
    {HttpMethod::Post, GM_TOPIC "/{role}", "Grant a role actions on a topic", grant_topic},
    {HttpMethod::Delete, GM_TOPIC "/{role}", "Revoke a role's permissions on a topic",
     revoke_topic},
    {HttpMethod::Post, "/admin/v2/namespaces/grantPermissionsOnTopics",
     "Grant permissions on several topics", grant_topics},
    {HttpMethod::Post, "/admin/v2/namespaces/revokePermissionsOnTopics",
     "Revoke permissions on several topics", revoke_topics},
};

}  // namespace

void add_permission_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
