// Clusters: their addresses, peers and failure domains, stored under /admin/clusters.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>

#include "server/admin/admin.h"
#include "server/admin/documents.h"

namespace geminga {

namespace json = boost::json;

namespace {

std::string cluster_path(const std::string& cluster) { return "/admin/clusters/" + cluster; }
std::string domain_path(const std::string& cluster, const std::string& domain) {
  return cluster_path(cluster) + "/failureDomain/" + domain;
}

Status no_cluster() { return Status::NotFound("Cluster does not exist"); }

// {cluster}, if it exists.
Task<Result<json::object>> cluster_of(Admin& admin, HttpRequest& request) {
  if (!is_valid_entity_name(request.param("cluster"))) co_return no_cluster();
  auto document = co_await read_document(admin.metadata(), cluster_path(request.param("cluster")));
  if (!document) co_return document.status();
  if (!document->has_value()) co_return no_cluster();
  co_return std::move(**document);
}

Result<json::object> cluster_data(const json::value& body) {
  if (!body.is_object()) return Status::InvalidArgument("cluster data is required");
  json::object out;
  for (const auto& member : body.get_object()) {
    if (!member.value().is_null()) out[member.key()] = member.value();
  }
  const auto check = [&](const char* field, std::string_view scheme,
                         const char* refusal) -> Status {
    const json::value* url = out.if_contains(field);
    if (url == nullptr || !url->is_string()) return Status::ok();
    const std::string_view text(url->get_string());
    if (text.empty() || text.starts_with(scheme)) return Status::ok();
    return Status::InvalidArgument(refusal);
  };
  GM_RETURN_IF_ERROR(check("serviceUrl", "http://",
                           "Illegal service url, example: http://pulsar.example.com:8080"));
  GM_RETURN_IF_ERROR(check("serviceUrlTls", "https://",
                           "Illegal service tls url, example: https://pulsar.example.com:8443"));
  GM_RETURN_IF_ERROR(
      check("brokerServiceUrl", "pulsar://",
            "Illegal broker service url, example: pulsar://pulsar.example.com:6650"));
  GM_RETURN_IF_ERROR(
      check("brokerServiceUrlTls", "pulsar+ssl://",
            "Illegal broker service tls url, example: pulsar+ssl://pulsar.example.com:6651"));
  for (const char* flag : {"brokerClientTlsEnabled", "tlsAllowInsecureConnection",
                           "brokerClientTlsEnabledWithKeyStore"}) {
    if (!out.contains(flag)) out[flag] = false;
  }
  return out;
}

Answer list(Admin& admin, HttpRequest&) {
  auto names = co_await admin.metadata().children("/admin/clusters");
  if (!names) co_return names.status();
  std::erase(*names, "global");  // Pulsar's name for "all clusters": no cluster of its own
  co_return text_list(*names);
}

Answer get(Admin& admin, HttpRequest& request) {
  auto cluster = co_await cluster_of(admin, request);
  if (!cluster) co_return cluster.status();
  co_return json_answer(*cluster);
}

Answer create(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  if (body.value.is_null()) co_return Status::InvalidArgument("cluster data is required");
  if (!is_valid_entity_name(request.param("cluster"))) {
    co_return Status::PreconditionFailed("Cluster name is not valid");
  }
  auto data = cluster_data(body.value);
  if (!data) co_return data.status();
  Status created = co_await create_document(
      admin.metadata(), cluster_path(request.param("cluster")), std::move(*data));
  if (created.is(ErrorCode::AlreadyExists))
    co_return Status::AlreadyExists("Cluster already exists");
  if (!created) co_return created;
  co_return ok_empty();
}

Answer update(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto data = cluster_data(body.value);
  if (!data) co_return data.status();
  const json::object fields = std::move(*data);
  DocumentChange change = [&fields](json::object& cluster) {
    for (const auto& member : fields) cluster[member.key()] = member.value();
    // What an update does not name is unset, but the peers have a call of their own.
    for (auto at = cluster.begin(); at != cluster.end();) {
      at = fields.contains(at->key()) || at->key() == "peerClusterNames" ? at + 1
                                                                         : cluster.erase(at);
    }
    return Status::ok();
  };
  Status changed =
      co_await change_document(admin.metadata(), cluster_path(request.param("cluster")), change);
  if (changed.is(ErrorCode::NotFound)) co_return no_cluster();
  if (!changed) co_return changed;
  co_return ok_empty();
}

Answer remove(Admin& admin, HttpRequest& request) {
  auto cluster = co_await cluster_of(admin, request);
  if (!cluster) co_return cluster.status();
  Status removed =
      co_await admin.metadata().remove_recursive(cluster_path(request.param("cluster")));
  if (!removed) co_return removed;
  co_return no_content();
}

Answer get_peers(Admin& admin, HttpRequest& request) {
  auto cluster = co_await cluster_of(admin, request);
  if (!cluster) co_return cluster.status();
  const json::value* peers = cluster->if_contains("peerClusterNames");
  if (peers == nullptr) co_return ok_empty();
  co_return json_answer(*peers);
}

Answer set_peers(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_array()) body.value = json::array();
  for (const json::value& peer : body.value.get_array()) {
    const std::string name = peer.is_string() ? std::string(peer.get_string()) : std::string();
    if (name == request.param("cluster")) {
      co_return Status::PreconditionFailed(name + " itself can't be part of peer-list");
    }
    bool known = false;
    if (is_valid_entity_name(name)) {
      auto exists = co_await admin.metadata().get(cluster_path(name));
      if (!exists) co_return exists.status();
      known = exists->has_value();
    }
    if (!known) co_return Status::PreconditionFailed("Peer cluster " + name + " does not exist");
  }
  const json::value peers = body.value;
  DocumentChange change = [&peers](json::object& cluster) {
    cluster["peerClusterNames"] = peers;
    return Status::ok();
  };
  Status changed =
      co_await change_document(admin.metadata(), cluster_path(request.param("cluster")), change);
  if (changed.is(ErrorCode::NotFound)) co_return no_cluster();
  if (!changed) co_return changed;
  co_return no_content();
}

// --- migration: where clients of a cluster are to go ---

std::string migration_path(const std::string& cluster) {
  return cluster_path(cluster) + "/policies";
}

Answer get_migration(Admin& admin, HttpRequest& request) {
  auto cluster = co_await cluster_of(admin, request);
  if (!cluster) co_return cluster.status();
  auto policies =
      co_await read_document(admin.metadata(), migration_path(request.param("cluster")));
  if (!policies) co_return policies.status();
  if (!policies->has_value()) co_return no_cluster();  // what the original says of one without
  co_return json_answer(**policies);
}

Answer set_migration(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto cluster = co_await cluster_of(admin, request);
  if (!cluster) co_return cluster.status();
  json::object url;
  bool empty = true;
  for (const char* field :
       {"serviceUrl", "serviceUrlTls", "brokerServiceUrl", "brokerServiceUrlTls"}) {
    const json::value* value =
        body.value.is_object() ? body.value.get_object().if_contains(field) : nullptr;
    if (value == nullptr || value->is_null()) continue;
    if (!value->is_string())
      co_return refusal_of(Status::Protocol(std::string(field) + " is text"));
    url[field] = *value;
    empty = empty && !std::string_view(field).starts_with("brokerServiceUrl");
  }
  const bool migrated = request.query_flag("migrated", false);
  if (migrated && empty)
    co_return Status::InvalidArgument("migration needs the brokerServiceUrl of the new cluster");
  url["empty"] = empty;
  DocumentChange change = [&url, migrated](json::object& policies) {
    policies["migrated"] = migrated;
    policies["migratedClusterUrl"] = url;
    return Status::ok();
  };
  Status changed = co_await change_document(
      admin.metadata(), migration_path(request.param("cluster")), std::move(change), true);
  if (!changed) co_return changed;
  co_return ok_empty();
}

// By name.
Task<Result<json::object>> domains_of(Admin& admin, std::string cluster) {
  auto names = co_await admin.metadata().children(cluster_path(cluster) + "/failureDomain");
  if (!names) co_return names.status();
  json::object out;
  for (const std::string& name : *names) {
    auto domain = co_await read_document(admin.metadata(), domain_path(cluster, name));
    if (!domain) co_return domain.status();
    if (domain->has_value()) out[name] = std::move(**domain);
  }
  co_return out;
}

// What the calls about a single domain say of a cluster that is not there; the list is empty then.
Task<Status> require_cluster(Admin& admin, HttpRequest& request) {
  auto cluster = co_await cluster_of(admin, request);
  if (cluster.is(ErrorCode::NotFound)) {
    co_return Status::PreconditionFailed(
        fmt::format("Cluster {} does not exist.", request.param("cluster")));
  }
  co_return cluster.status();
}

Answer list_domains(Admin& admin, HttpRequest& request) {
  if (!is_valid_entity_name(request.param("cluster"))) co_return json_answer(json::object());
  auto domains = co_await domains_of(admin, request.param("cluster"));
  if (!domains) co_return domains.status();
  co_return json_answer(*domains);
}

const json::array* brokers_in(const json::value& domain) {
  const json::value* brokers =
      domain.is_object() ? domain.get_object().if_contains("brokers") : nullptr;
  return brokers != nullptr ? brokers->if_array() : nullptr;
}

// A broker is in one domain at most. Conflict names those of `domain` that another has.
Status check_brokers(const json::object& others, const std::string& name,
                     const json::value& domain) {
  const json::array* wanted = brokers_in(domain);
  if (wanted == nullptr) return Status::ok();
  for (const auto& other : others) {
    const json::array* taken = brokers_in(other.value());
    if (taken == nullptr || other.key() == name) continue;
    std::string both;
    for (const json::value& broker : *wanted) {
      if (!broker.is_string() || std::find(taken->begin(), taken->end(), broker) == taken->end())
        continue;
      both += both.empty() ? "" : ", ";
      both += std::string_view(broker.get_string());
    }
    if (!both.empty()) {
      return Status::Conflict(
          fmt::format("[{}] already exists in {}", both, std::string_view(other.key())));
    }
  }
  return Status::ok();
}

Status no_domain(const HttpRequest& request) {
  return Status::NotFound(fmt::format("Domain {} for cluster {} does not exist",
                                      request.param("domain"), request.param("cluster")));
}

Answer get_domain(Admin& admin, HttpRequest& request) {
  Status found = co_await require_cluster(admin, request);
  if (!found) co_return found;
  if (!is_valid_entity_name(request.param("domain"))) co_return no_domain(request);
  auto domain = co_await read_document(
      admin.metadata(), domain_path(request.param("cluster"), request.param("domain")));
  if (!domain) co_return domain.status();
  if (!domain->has_value()) co_return no_domain(request);
  co_return json_answer(**domain);
}

Answer set_domain(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_object())
    co_return Status::InvalidArgument("a failure domain is an object with its brokers");
  Status found = co_await require_cluster(admin, request);
  if (!found) co_return found;
  if (!is_valid_entity_name(request.param("domain"))) {
    co_return Status::PreconditionFailed("Failure domain name is not valid");
  }
  auto others = co_await domains_of(admin, request.param("cluster"));
  if (!others) co_return others.status();
  Status checked = check_brokers(*others, request.param("domain"), body.value);
  if (!checked) co_return checked;
  const json::object domain = body.value.get_object();
  DocumentChange change = [&domain](json::object& stored) {
    stored = domain;
    return Status::ok();
  };
  Status changed = co_await change_document(
      admin.metadata(), domain_path(request.param("cluster"), request.param("domain")), change,
      true);
  if (!changed) co_return changed;
  co_return no_content();
}

Answer remove_domain(Admin& admin, HttpRequest& request) {
  Status found = co_await require_cluster(admin, request);
  if (!found) co_return found;
  const Status missing =
      Status::NotFound(fmt::format("Domain-name {} or cluster {} does not exist",
                                   request.param("domain"), request.param("cluster")));
  if (!is_valid_entity_name(request.param("domain"))) co_return missing;
  Status removed = co_await admin.metadata().remove(
      domain_path(request.param("cluster"), request.param("domain")));
  if (removed.is(ErrorCode::NotFound)) co_return missing;
  if (!removed) co_return removed;
  co_return ok_empty();
}

constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, "/admin/clusters", "Names of the clusters", list},
    {HttpMethod::Get, "/admin/v2/clusters", "Names of the clusters", list},
    {HttpMethod::Get, "/admin/v2/clusters/{cluster}", "Addresses of a cluster", get},
    {HttpMethod::Put, "/admin/v2/clusters/{cluster}", "Create a cluster", create},
    {HttpMethod::Post, "/admin/v2/clusters/{cluster}", "Change a cluster's addresses", update},
    {HttpMethod::Delete, "/admin/v2/clusters/{cluster}", "Delete a cluster", remove},
    {HttpMethod::Get, "/admin/v2/clusters/{cluster}/peers", "Peers of a cluster", get_peers},
    {HttpMethod::Post, "/admin/v2/clusters/{cluster}/peers", "Set the peers of a cluster",
     set_peers},
    {HttpMethod::Get, "/admin/v2/clusters/{cluster}/migrate", "Where a cluster has migrated to",
     get_migration},
    {HttpMethod::Post, "/admin/v2/clusters/{cluster}/migrate",
     "Say where a cluster has migrated to", set_migration},
    {HttpMethod::Get, "/admin/v2/clusters/{cluster}/failureDomains", "Failure domains of a cluster",
     list_domains},
    {HttpMethod::Get, "/admin/v2/clusters/{cluster}/failureDomains/{domain}", "A failure domain",
     get_domain},
    {HttpMethod::Post, "/admin/v2/clusters/{cluster}/failureDomains/{domain}",
     "Create or change a failure domain", set_domain},
    {HttpMethod::Delete, "/admin/v2/clusters/{cluster}/failureDomains/{domain}",
     "Delete a failure domain", remove_domain},
};

}  // namespace

void add_cluster_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
