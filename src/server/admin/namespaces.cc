// Namespaces: create, list, delete, their topics, bundles, and what is done to all topics of one.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <set>

#include "base/config.h"
#include "server/admin/admin.h"
#include "server/admin/bundles.h"
#include "server/admin/documents.h"
#include "server/admin/namespace_change.h"
#include "server/admin/namespace_deletion.h"
#include "server/admin/namespace_document.h"
#include "server/json_text.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr const char* kDomains[] = {"/persistent", "/non-persistent"};

Answer list(Admin& admin, HttpRequest& request) {
  const std::string& tenant = request.param("tenant");
  if (!is_valid_entity_name(tenant))
    co_return Status::PreconditionFailed("Tenant name is not valid");
  auto exists = co_await admin.metadata().get(tenant_path(tenant));
  if (!exists) co_return exists.status();
  if (!exists->has_value()) co_return Status::NotFound("Tenant not found");
  auto namespaces = co_await namespaces_of(admin, tenant);
  if (!namespaces) co_return namespaces.status();
  std::vector<std::string> names;
  for (const NamespaceName& ns : *namespaces) names.push_back(ns.full());
  co_return text_list(names);
}

// Those of the old form that are in {cluster}.
Answer list_in_cluster(Admin& admin, HttpRequest& request) {
  const std::string& tenant = request.param("tenant");
  if (!is_valid_entity_name(tenant))
    co_return Status::PreconditionFailed("Tenant name is not valid");
  auto namespaces = co_await namespaces_of(admin, tenant);
  if (!namespaces) co_return namespaces.status();
  const std::string prefix = tenant + '/' + request.param("cluster") + '/';
  std::vector<std::string> names;
  for (const NamespaceName& ns : *namespaces) {
    if (ns.full().starts_with(prefix)) names.push_back(ns.full());
  }
  co_return text_list(names);
}

Answer get(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  co_return json_answer(*policies);
}

Answer create(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto tenant = co_await read_document(admin.metadata(), tenant_path(ns->tenant()));
  if (!tenant) co_return tenant.status();
  if (!tenant->has_value()) co_return Status::NotFound("Tenant does not exist");
  auto document = new_namespace_document(body.value, admin.cluster(),
                                         admin.live()->default_number_of_namespace_bundles);
  if (!document) co_return refusal_of(document.status());
  const json::value* allowed = (*tenant)->if_contains("allowedClusters");
  for (const json::value& cluster : document->at("replication_clusters").get_array()) {
    const bool may = allowed != nullptr && allowed->is_array() &&
                     std::find(allowed->get_array().begin(), allowed->get_array().end(), cluster) !=
                         allowed->get_array().end();
    if (!may) {
      co_return Status::Authorization(
          fmt::format("Cluster [{}] is not in the list of allowed clusters list for tenant [{}]",
                      std::string_view(cluster.get_string()), ns->tenant()));
    }
  }
  const json::value* isolation = member(object_in(*document, "properties"), Isolation::kProperty);
  const std::string group = isolation != nullptr && isolation->is_string()
                                ? std::string(isolation->get_string())
                                : std::string();
  if (!group.empty()) {
    const Status may = co_await admin.broker.isolation().prepare(ns->full(), group);
    if (!may) co_return refusal_of(may);
  }
  Status created =
      co_await create_document(admin.metadata(), policies_path(*ns), std::move(*document));
  if (!group.empty()) co_await admin.broker.isolation().settle(ns->full());
  if (created.is(ErrorCode::AlreadyExists))
    co_return Status::AlreadyExists("Namespace already exists");
  if (!created) co_return created;
  co_return no_content();
}

// One of the old form: the body is its bundles, and it is in the cluster of its name alone.
Answer create_old(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto tenant = co_await admin.metadata().get(tenant_path(ns->tenant()));
  if (!tenant) co_return tenant.status();
  if (!tenant->has_value()) co_return Status::NotFound("Tenant does not exist");
  json::object policies;
  if (body.value.is_object()) policies["bundles"] = std::move(body.value);
  auto document = new_namespace_document(std::move(policies), admin.cluster(),
                                         admin.live()->default_number_of_namespace_bundles);
  if (!document) co_return refusal_of(document.status());
  (*document)["replication_clusters"] = json::array();
  Status created =
      co_await create_document(admin.metadata(), policies_path(*ns), std::move(*document));
  if (created.is(ErrorCode::AlreadyExists))
    co_return Status::AlreadyExists("Namespace already exists");
  if (!created) co_return created;
  co_return no_content();
}

Answer remove(Admin& admin, HttpRequest& request) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  const bool force = request.query_flag("force", false);
  if (force && !admin.live()->force_delete_namespace_allowed) {
    co_return Status::NotAllowed("Broker doesn't allow forced deletion of namespaces");
  }
  Status removed = co_await delete_namespace(admin, *ns, force);
  if (!removed) co_return removed;
  co_return no_content();
}

Answer topics(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const std::string_view mode = request.query_value("mode").value_or("PERSISTENT");
  const bool all = mode == "ALL";
  if (!all && mode != "PERSISTENT" && mode != "NON_PERSISTENT") co_return server_page(request, 404);
  auto ns = namespace_of(request);
  auto names = co_await admin.broker.list_topics(ns->full(), all || mode == "PERSISTENT",
                                                 all || mode == "NON_PERSISTENT",
                                                 request.query_flag("includeSystemTopic", false));
  if (!names) co_return names.status();
  co_return text_list(*names);
}

Answer bundles(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  co_return json_answer(policies->at("bundles"));
}

// The topics of a namespace, of one bundle of it if the route names one.
Task<Result<std::vector<TopicName>>> topics_of(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  const std::string ns = namespace_of(request)->full();
  const std::string& range = request.param("bundle");
  if (!range.empty()) {
    const std::string wrong = why_no_bundle(*policies, ns, range);
    if (!wrong.empty()) co_return Status::PreconditionFailed(wrong);
  }
  const auto bundle = parse_bundle(range);
  auto names = co_await admin.broker.list_topics(ns, true, true, true);
  if (!names) co_return names.status();
  std::vector<TopicName> topics;
  for (const std::string& text : *names) {
    auto name = TopicName::parse(text);
    if (name && (!bundle || bundle_holds(*bundle, name->bundle_hash())))
      topics.push_back(std::move(*name));
  }
  co_return topics;
}

Answer unload(Admin& admin, HttpRequest& request) {
  auto topics = co_await topics_of(admin, request);
  if (!topics) co_return topics.status();
  for (const TopicName& name : *topics) {
    Status unloaded = co_await admin.broker.unload_topic(name);
    if (!unloaded && !unloaded.is(ErrorCode::TopicNotFound) && !unloaded.is(ErrorCode::NotFound)) {
      co_return unloaded;
    }
  }
  co_return no_content();
}

// Does `work` to every topic of the namespace or bundle; topics that vanish meanwhile do not
// matter.
Answer with_topics(Admin& admin, HttpRequest& request, TopicWork work) {
  auto topics = co_await topics_of(admin, request);
  if (!topics) co_return topics.status();
  for (const TopicName& name : *topics) {
    if (name.is_system()) continue;
    auto answer = co_await with_topic(admin, name, work);
    if (answer.is(ErrorCode::NotFound)) continue;
    if (!answer || answer->status >= 300) co_return answer;
  }
  co_return no_content();
}

Answer clear_backlog(Admin& admin, HttpRequest& request) {
  const std::string only = request.param("subscription");
  auto work = [only](std::shared_ptr<Topic> topic) -> Answer {
    for (const std::string& name : topic->subscription_names()) {
      if (!only.empty() && name != only) continue;
      auto subscription = topic->subscription(name);
      if (!subscription) continue;
      Status skipped = co_await subscription->skip_all();
      if (!skipped) co_return skipped;
    }
    co_return no_content();
  };
  co_return co_await with_topics(admin, request, std::move(work));
}

Answer unsubscribe(Admin& admin, HttpRequest& request) {
  const std::string subscription = request.param("subscription");
  auto work = [subscription](std::shared_ptr<Topic> topic) -> Answer {
    if (!topic->subscription(subscription)) co_return no_content();
    Status deleted = co_await topic->delete_subscription(subscription, false);
    if (!deleted) co_return deleted;
    co_return no_content();
  };
  co_return co_await with_topics(admin, request, std::move(work));
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/admin/v2/namespaces/{tenant}", "Namespaces of a tenant", list},
    {HttpMethod::Get, "/admin/v2/namespaces/{tenant}/{namespace}", "All policies of a namespace",
     get},
    {HttpMethod::Put, "/admin/v2/namespaces/{tenant}/{namespace}", "Create a namespace", create},
    {HttpMethod::Delete, "/admin/v2/namespaces/{tenant}/{namespace}", "Delete a namespace", remove},
    {HttpMethod::Get, "/admin/namespaces/{tenant}", "Namespaces of a tenant", list},
    {HttpMethod::Get, "/admin/namespaces/{tenant}/{cluster}",
     "Namespaces of a tenant in a cluster, with names of the old form", list_in_cluster},
    {HttpMethod::Get, "/admin/namespaces/{tenant}/{cluster}/{namespace}",
     "All policies of a namespace with a name of the old form", get},
    {HttpMethod::Put, "/admin/namespaces/{tenant}/{cluster}/{namespace}",
     "Create a namespace with a name of the old form", create_old},
    {HttpMethod::Delete, "/admin/namespaces/{tenant}/{cluster}/{namespace}",
     "Delete a namespace with a name of the old form", remove},
    {HttpMethod::Get, "/admin/v2/namespaces/{tenant}/{namespace}/topics", "Topics of a namespace",
     topics},
    {HttpMethod::Get, "/admin/v2/namespaces/{tenant}/{namespace}/bundles", "Bundles of a namespace",
     bundles},
    {HttpMethod::Put, "/admin/v2/namespaces/{tenant}/{namespace}/unload",
     "Unload all topics of a namespace", unload},
    {HttpMethod::Put, "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/unload",
     "Unload the topics of a bundle", unload},
    {HttpMethod::Post, "/admin/v2/namespaces/{tenant}/{namespace}/clearBacklog",
     "Skip all messages of all subscriptions of a namespace", clear_backlog},
    {HttpMethod::Post, "/admin/v2/namespaces/{tenant}/{namespace}/clearBacklog/{subscription}",
     "Skip all messages of a subscription on all topics of a namespace", clear_backlog},
    {HttpMethod::Post, "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/clearBacklog",
     "Skip all messages of all subscriptions of a bundle", clear_backlog},
    {HttpMethod::Post,
     "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/clearBacklog/{subscription}",
     "Skip all messages of a subscription on all topics of a bundle", clear_backlog},
    {HttpMethod::Post, "/admin/v2/namespaces/{tenant}/{namespace}/unsubscribe/{subscription}",
     "Delete a subscription on all topics of a namespace", unsubscribe},
    {HttpMethod::Post,
     "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/unsubscribe/{subscription}",
     "Delete a subscription on all topics of a bundle", unsubscribe},
};

}  // namespace

Task<Status> delete_namespace(Admin& admin, NamespaceName ns, bool force) {
  const Status missing = Status::NotFound("Namespace " + ns.full() + " does not exist.");
  auto exists = co_await admin.metadata().get(policies_path(ns));
  if (!exists) co_return exists.status();
  if (!exists->has_value() && !ns.exists_by_itself()) co_return missing;
  auto names = co_await admin.broker.list_topics(ns.full(), true, true, true);
  if (!names) co_return names.status();
  const std::string partitioned = "/admin/partitioned-topics/" + ns.full();
  bool empty = true;
  std::vector<TopicName> topics;
  for (const std::string& text : *names) {
    auto name = TopicName::parse(text);
    if (!name) co_return name.status();
    empty = empty && name->is_system();
    topics.push_back(std::move(*name));
  }
  for (const char* domain : kDomains) {
    auto parents = co_await admin.metadata().children(partitioned + domain);
    if (!parents) co_return parents.status();
    empty = empty && parents->empty();
  }
  if (!empty && !force) co_return Status::Conflict("Cannot delete non empty namespace");
  if (empty && !exists->has_value()) co_return missing;

  DocumentChange mark = [](json::object& policies) {
    policies["deleted"] = true;
    return Status::ok();
  };
  Status marked = co_await change_document(admin.metadata(), policies_path(ns), mark, true);
  if (!marked) co_return marked;
  Status gone = co_await admin.metadata().remove_recursive(partitioned);
  if (!gone) co_return gone;
  for (const TopicName& name : topics) {
    gone = co_await admin.broker.delete_topic(name, true);
    if (!gone && !gone.is(ErrorCode::TopicNotFound) && !gone.is(ErrorCode::NotFound))
      co_return gone;
  }
  const std::vector<std::string> trees = {"/schemas/" + ns.full(), local_policies_path(ns),
                                          topic_policies_root(ns), "/managed-ledgers/" + ns.full()};
  for (const std::string& tree : trees) {
    gone = co_await admin.metadata().remove_recursive(tree);
    if (!gone) co_return gone;
  }
  gone = co_await admin.metadata().remove(policies_path(ns));
  co_await admin.broker.isolation().settle(ns.full());
  if (gone.is(ErrorCode::NotFound)) co_return missing;
  co_return gone;
}

void add_namespace_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
