// `tenants`, `clusters`, `ns-isolation-policy`.
#include "cli/admin/arguments.h"
#include "cli/admin/cluster_file.h"
#include "cli/admin/command.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

Result<json::value> get_json(Call& call, const std::string& target) {
  GM_ASSIGN_OR_RETURN(const Answer answer, call.client.must("GET", target));
  return parse_json(answer.body);
}

// --- tenants ---

// Without clusters a tenant may use all that there are.
Status create_tenant(Call& call) {
  json::object body{{"adminRoles", json::array()}};
  if (const auto* roles = call.values.if_contains("admin-roles")) body["adminRoles"] = *roles;
  if (const auto* clusters = call.values.if_contains("allowed-clusters")) {
    body["allowedClusters"] = *clusters;
  } else {
    GM_ASSIGN_OR_RETURN(body["allowedClusters"], get_json(call, "/admin/v2/clusters"));
  }
  return call.client
      .must("PUT", make_target("/admin/v2/tenants/{tenant}", call.values), to_json(body))
      .status();
}

// What is not given stays as it is.
Status update_tenant(Call& call) {
  const std::string target = make_target("/admin/v2/tenants/{tenant}", call.values);
  json::object body;
  const auto* roles = call.values.if_contains("admin-roles");
  const auto* clusters = call.values.if_contains("allowed-clusters");
  if (roles == nullptr || clusters == nullptr) {
    GM_ASSIGN_OR_RETURN(const json::value now, get_json(call, target));
    body = now.as_object();
  }
  if (roles != nullptr) body["adminRoles"] = *roles;
  if (clusters != nullptr) body["allowedClusters"] = *clusters;
  return call.client.must("POST", target, to_json(body)).status();
}

constexpr Command kTenants[] = {
    {"list", "", "GET /admin/v2/tenants", {}, Print::Lines, "Lists the tenants"},
    {"get", "<tenant>", "GET /admin/v2/tenants/{tenant}", {}, Print::Json, "Shows a tenant"},
    {"create",
     "<tenant> -r,--admin-roles:list -c,--allowed-clusters:list",
     {},
     {},
     Print::Nothing,
     "Creates a tenant",
     create_tenant},
    {"update",
     "<tenant> -r,--admin-roles:list -c,--allowed-clusters:list",
     {},
     {},
     Print::Nothing,
     "Changes the roles or clusters of a tenant",
     update_tenant},
    {"delete",
     "<tenant> -f,--force",
     "DELETE /admin/v2/tenants/{tenant}?force={force}",
     {},
     Print::Nothing,
     "Deletes a tenant; with --force its namespaces, too"},
};

// --- clusters ---

Status list_clusters(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value clusters, get_json(call, "/admin/v2/clusters"));
  std::string current;
  if (call.values.at("current").as_bool()) {
    GM_ASSIGN_OR_RETURN(const json::value settings,
                        get_json(call, "/admin/v2/brokers/configuration/runtime"));
    const auto* name = settings.as_object().if_contains("clusterName");
    if (name != nullptr) current = plain(*name);
  }
  for (const json::value& each : clusters.as_array()) {
    const std::string name = plain(each);
    print_text(name + (name == current ? "(*)" : "") + "\n");
  }
  return Status::ok();
}

constexpr std::string_view kCluster =
    "<cluster> --url:text --url-secure:text --broker-url:text --broker-url-secure:text "
    "--proxy-url:text --proxy-protocol:upper --auth-plugin:text --auth-parameters:text "
    "--listener-name:text --cluster-config-file:text --tls-enable --tls-allow-insecure "
    "--tls-enable-keystore --tls-trust-certs-filepath:text --tls-key-filepath:text "
    "--tls-certs-filepath:text --tls-trust-store-type:text=JKS --tls-trust-store:text "
    "--tls-trust-store-pwd:text --tls-key-store-type:text=JKS --tls-key-store:text "
    "--tls-key-store-pwd:text "
    "--tls-factory-plugin:text=org.apache.pulsar.common.util.DefaultPulsarSslFactory "
    "--tls-factory-plugin-params:text";
constexpr std::string_view kClusterBody =
    R"({"serviceUrl":"$url","serviceUrlTls":"$url-secure","brokerServiceUrl":"$broker-url","brokerServiceUrlTls":"$broker-url-secure","proxyServiceUrl":"$proxy-url","authenticationPlugin":"$auth-plugin","authenticationParameters":"$auth-parameters","proxyProtocol":"$proxy-protocol","brokerClientTlsEnabled":"$tls-enable","tlsAllowInsecureConnection":"$tls-allow-insecure","brokerClientTlsEnabledWithKeyStore":"$tls-enable-keystore","brokerClientTlsTrustStoreType":"$tls-trust-store-type","brokerClientTlsTrustStore":"$tls-trust-store","brokerClientTlsTrustStorePassword":"$tls-trust-store-pwd","brokerClientTlsKeyStoreType":"$tls-key-store-type","brokerClientTlsKeyStore":"$tls-key-store","brokerClientTlsKeyStorePassword":"$tls-key-store-pwd","brokerClientTrustCertsFilePath":"$tls-trust-certs-filepath","brokerClientKeyFilePath":"$tls-key-filepath","brokerClientCertificateFilePath":"$tls-certs-filepath","brokerClientSslFactoryPlugin":"$tls-factory-plugin","brokerClientSslFactoryPluginParams":"$tls-factory-plugin-params","listenerName":"$listener-name"})";

// What the file of --cluster-config-file says holds where the command line says nothing.
Status put_cluster(Call& call, std::string_view method) {
  const Command row{{}, {}, "POST /", kClusterBody};
  GM_ASSIGN_OR_RETURN(json::value body, parse_json(make_request(row, call.values).body));
  if (const auto* file = call.values.if_contains("cluster-config-file")) {
    // What a command line without options stands for.
    GM_ASSIGN_OR_RETURN(const json::object silent,
                        parse_arguments(describe(kCluster), {plain(call.values.at("cluster"))}));
    GM_ASSIGN_OR_RETURN(const json::value defaults, parse_json(make_request(row, silent).body));
    GM_ASSIGN_OR_RETURN(const json::object stated, read_cluster_file(plain(*file)));
    for (const auto& [name, value] : stated) {
      const json::value* given = body.as_object().if_contains(name);
      const json::value* unsaid = defaults.as_object().if_contains(name);
      if (given == nullptr || (unsaid != nullptr && *given == *unsaid))
        body.as_object()[name] = value;
    }
  }
  return call.client
      .must(method, make_target("/admin/v2/clusters/{cluster}", call.values), to_json(body))
      .status();
}

// One after the other, so that what fails is named and what is left can be deleted again.
Status delete_everything(Call& call) {
  const auto list = [&](const std::string& path) { return get_json(call, path); };
  const auto drop = [&](const std::string& path) {
    return call.client.must("DELETE", "/admin/v2/" + path + "?force=true").status();
  };
  GM_ASSIGN_OR_RETURN(const json::value tenants, list("/admin/v2/tenants"));
  for (const json::value& tenant : tenants.as_array()) {
    GM_ASSIGN_OR_RETURN(const json::value namespaces,
                        list("/admin/v2/namespaces/" + plain(tenant)));
    for (const json::value& name : namespaces.as_array()) {
      GM_RETURN_IF_ERROR(drop("namespaces/" + plain(name)));
    }
    GM_RETURN_IF_ERROR(drop("tenants/" + plain(tenant)));
  }
  return Status::ok();
}

Status delete_cluster(Call& call) {
  if (call.values.at("all").as_bool()) GM_RETURN_IF_ERROR(delete_everything(call));
  return call.client.must("DELETE", make_target("/admin/v2/clusters/{cluster}", call.values))
      .status();
}

constexpr std::string_view kDomain = "<cluster> --domain-name:text! --broker-list:list";

constexpr Command kClusters[] = {
    {"list", "-c,--current", {}, {}, Print::Nothing, "Lists the clusters", list_clusters},
    {"get", "<cluster>", "GET /admin/v2/clusters/{cluster}", {}, Print::Json, "Shows a cluster"},
    {"create",
     kCluster,
     {},
     {},
     Print::Nothing,
     "Makes a cluster known",
     [](Call& call) { return put_cluster(call, "PUT"); }},
    {"update",
     kCluster,
     {},
     {},
     Print::Nothing,
     "Changes what is known of a cluster",
     [](Call& call) { return put_cluster(call, "POST"); }},
    {"delete",
     "<cluster> -a,--all",
     {},
     {},
     Print::Nothing,
     "Forgets a cluster; with --all every tenant, namespace and topic goes, too",
     delete_cluster},
    {"update-peer-clusters", "<cluster> --peer-clusters:list!",
     "POST /admin/v2/clusters/{cluster}/peers", R"("$peer-clusters")", Print::Nothing,
     "Names the clusters that may take a cluster's place"},
    {"get-peer-clusters", "<cluster>", "GET /admin/v2/clusters/{cluster}/peers", {}, Print::Json},
    {"get-cluster-migration",
     "<cluster>",
     "GET /admin/v2/clusters/{cluster}/migrate",
     {},
     Print::Json},
    {"update-cluster-migration",
     "<cluster> --migrated --service-url:text --service-url-secure:text --broker-url:text "
     "--broker-url-secure:text",
     "POST /admin/v2/clusters/{cluster}/migrate?migrated={migrated}",
     R"({"serviceUrl":"$service-url","serviceUrlTls":"$service-url-secure","brokerServiceUrl":"$broker-url","brokerServiceUrlTls":"$broker-url-secure"})",
     Print::Nothing, "Says where the clients of a cluster are to go"},
    {"create-failure-domain", kDomain,
     "POST /admin/v2/clusters/{cluster}/failureDomains/{domain-name}",
     R"({"brokers":"$broker-list"})", Print::Nothing, "Puts brokers into a failure domain"},
    {"update-failure-domain", kDomain,
     "POST /admin/v2/clusters/{cluster}/failureDomains/{domain-name}",
     R"({"brokers":"$broker-list"})", Print::Nothing, "Replaces the brokers of a failure domain"},
    {"get-failure-domain",
     "<cluster> --domain-name:text!",
     "GET /admin/v2/clusters/{cluster}/failureDomains/{domain-name}",
     {},
     Print::Json},
    {"delete-failure-domain",
     "<cluster> --domain-name:text!",
     "DELETE /admin/v2/clusters/{cluster}/failureDomains/{domain-name}",
     {},
     Print::Nothing,
     "Removes a failure domain"},
    {"list-failure-domains",
     "<cluster>",
     {},
     {},
     Print::Nothing,
     "Lists the failure domains of a cluster",
     [](Call& call) {
       GM_ASSIGN_OR_RETURN(
           const json::value domains,
           get_json(call, make_target("/admin/v2/clusters/{cluster}/failureDomains", call.values)));
       for (const auto& [name, domain] : domains.as_object()) {
         print_text(std::string(name) +
                    "    FailureDomainImpl(brokers=" + plain(domain.at("brokers")) + ")\n");
       }
       return Status::ok();
     }},
};

// --- ns-isolation-policy ---

constexpr Command kIsolation[] = {
    {"set",
     "<cluster> <policy> --namespaces:list! --primary:list! --secondary:list "
     "--auto-failover-policy-type:text! --auto-failover-policy-params:map! --unload-scope:text",
     "POST /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/{policy}",
     R"({"namespaces":"$namespaces","primary":"$primary","secondary":"$secondary","auto_failover_policy":{"parameters":"$auto-failover-policy-params","policy_type":"$auto-failover-policy-type"},"unload_scope":"$unload-scope"})",
     Print::Nothing, "Binds namespaces to brokers"},
    {"get",
     "<cluster> <policy>",
     "GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/{policy}",
     {},
     Print::Json,
     "Shows an isolation policy"},
    {"list",
     "<cluster>",
     "GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies",
     {},
     Print::Map,
     "Lists the isolation policies of a cluster"},
    {"delete",
     "<cluster> <policy>",
     "DELETE /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/{policy}",
     {},
     Print::Nothing,
     "Deletes an isolation policy"},
    {"brokers",
     "<cluster>",
     "GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/brokers",
     {},
     Print::Lines,
     "Lists brokers with the isolation policies that name them"},
    {"broker",
     "<cluster> --broker:text!",
     "GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/brokers/{broker}",
     {},
     Print::Json,
     "Shows a broker with the isolation policies that name it"},
};

}  // namespace

Group tenants_group() { return {"tenants|properties", "Tenants", kTenants}; }
Group clusters_group() { return {"clusters", "Clusters and failure domains", kClusters}; }
Group isolation_group() {
  return {"ns-isolation-policy", "Which brokers serve which namespaces", kIsolation};
}

}  // namespace geminga::admin_cli
