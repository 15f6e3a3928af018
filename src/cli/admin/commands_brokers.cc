// `brokers`, `broker-stats`, `bookies`, `resource-quotas`, `resourcegroups`, `proxy-stats`.
#include "cli/admin/command.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

Status owned_namespaces(Call& call) {
  GM_ASSIGN_OR_RETURN(
      const Answer answer,
      call.client.must(
          "GET", make_target("/admin/v2/brokers/{cluster}/{url}/ownedNamespaces", call.values)));
  GM_ASSIGN_OR_RETURN(const json::value owned, parse_json(answer.body));
  for (const auto& [bundle, status] : owned.as_object()) {
    print_text(std::string(bundle) +
               "    [broker_assignment=" + plain(status.at("broker_assignment")) +
               " is_controlled=" + plain(status.at("is_controlled")) +
               " is_active=" + plain(status.at("is_active")) + "]\n");
  }
  return Status::ok();
}

// All, or of one bundle.
Status quotas(Call& call, std::string_view method, const std::string& body) {
  const bool one = call.values.contains("namespace-name") && call.values.contains("bundle");
  if (!one && (call.values.contains("namespace-name") || call.values.contains("bundle")))
    return Status::InvalidArgument("--namespace and --bundle go together");
  std::string target = "/admin/v2/resource-quotas";
  if (one) {
    target += "/" + std::string(call.values.at("namespace-name").as_string()) + "/" +
              std::string(call.values.at("bundle").as_string());
  }
  GM_ASSIGN_OR_RETURN(const Answer answer, call.client.must(method, target, body));
  if (method == "GET") print_text(render(Print::Json, answer.body, !call.as_json));
  return Status::ok();
}

constexpr Command kBrokers[] = {
    {"list",
     "<cluster>",
     "GET /admin/v2/brokers/{cluster}",
     {},
     Print::Lines,
     "Lists the brokers of a cluster"},
    {"leader-broker",
     "",
     "GET /admin/v2/brokers/leaderBroker",
     {},
     Print::Json,
     "Shows the leader"},
    {"namespaces",
     "<cluster> -u,--url:text!",
     {},
     {},
     Print::Nothing,
     "Lists the bundles that a broker owns",
     owned_namespaces},
    {"update-dynamic-config",
     "-c,--config:text! -v,--value:text!",
     "POST /admin/v2/brokers/configuration/{config}/{value}",
     {},
     Print::Nothing,
     "Changes a setting of the running broker"},
    {"delete-dynamic-config",
     "-c,--config:text!",
     "DELETE /admin/v2/brokers/configuration/{config}",
     {},
     Print::Nothing,
     "Takes a change of a setting back"},
    {"list-dynamic-config",
     "",
     "GET /admin/v2/brokers/configuration",
     {},
     Print::Lines,
     "Lists the settings that can be changed while the broker runs"},
    {"get-all-dynamic-config",
     "",
     "GET /admin/v2/brokers/configuration/values",
     {},
     Print::Map,
     "Shows the settings that were changed"},
    {"get-internal-config",
     "",
     "GET /admin/v2/brokers/internal-configuration",
     {},
     Print::Json,
     "Shows where metadata and data are"},
    {"get-runtime-config",
     "",
     "GET /admin/v2/brokers/configuration/runtime",
     {},
     Print::Map,
     "Shows all settings"},
    {"healthcheck",
     "-tv,--topic-version:upper",
     "GET /admin/v2/brokers/health?topicVersion={topic-version}",
     {},
     Print::Text,
     "Publishes and receives a message on the broker"},
    {"backlog-quota-check",
     "",
     "GET /admin/v2/brokers/backlog-quota-check",
     {},
     Print::Text,
     "Checks all backlog quotas now"},
    {"version", "", "GET /admin/v2/brokers/version", {}, Print::Text, "Shows the version"},
    {"shutdown",
     "-m,--max-concurrent-unload-per-sec:int=0 -f,--forced-terminate-topic",
     "POST /admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec={max-concurrent-unload-per-sec}"
     "&forcedTerminateTopic={forced-terminate-topic}",
     {},
     Print::Nothing,
     "Stops the broker cleanly"},
};

constexpr Command kBrokerStats[] = {
    {"monitoring-metrics",
     "-i,--indent",
     "GET /admin/v2/broker-stats/metrics",
     {},
     Print::Raw,
     "Shows the metrics that Pulsar has for monitoring"},
    {"mbeans",
     "-i,--indent",
     "GET /admin/v2/broker-stats/mbeans",
     {},
     Print::Raw,
     "Shows the beans of the JVM (Geminga has none)"},
    {"topics|destinations",
     "-i,--indent",
     "GET /admin/v2/broker-stats/topics",
     {},
     Print::Raw,
     "Shows the statistics of all topics"},
    {"allocator-stats",
     "<allocator>",
     "GET /admin/v2/broker-stats/allocator-stats/{allocator}",
     {},
     Print::Json,
     "Shows a memory allocator"},
    {"load-report",
     "",
     "GET /admin/v2/broker-stats/load-report",
     {},
     Print::Json,
     "Shows the load of the broker"},
};

constexpr Command kBookies[] = {
    {"racks-placement",
     "",
     "GET /admin/v2/bookies/racks-info",
     {},
     Print::Json,
     "Shows the racks of the bookies"},
    {"list-bookies", "", "GET /admin/v2/bookies/all", {}, Print::Json, "Lists the bookies"},
    {"get-bookie-rack",
     "-b,--bookie:text!",
     "GET /admin/v2/bookies/racks-info/{bookie}",
     {},
     Print::Json},
    {"delete-bookie-rack",
     "-b,--bookie:text!",
     "DELETE /admin/v2/bookies/racks-info/{bookie}",
     {},
     Print::Nothing,
     "Forgets the rack of a bookie"},
    {"set-bookie-rack",
     "-b,--bookie:text! -r,--rack:text! -g,--group:text=default -hn,--hostname:text",
     "POST /admin/v2/bookies/racks-info/{bookie}?group={group}",
     R"({"rack":"$rack","hostname":"$hostname"})"},
};

constexpr std::string_view kQuotaBody =
    R"({"msgRateIn":"$msgRateIn","msgRateOut":"$msgRateOut","bandwidthIn":"$bandwidthIn","bandwidthOut":"$bandwidthOut","memory":"$memory","dynamic":"$dynamic"})";
constexpr Command kResourceQuotas[] = {
    {"get",
     "-n,--namespace-name,--namespace:text -b,--bundle:text",
     {},
     {},
     Print::Nothing,
     "Shows the quota of a bundle, or the default",
     [](Call& call) { return quotas(call, "GET", ""); }},
    {"set",
     "-n,--namespace-name,--namespace:text -b,--bundle:text -mi,--msgRateIn:num! "
     "-mo,--msgRateOut:num! -bi,--bandwidthIn:num! -bo,--bandwidthOut:num! -mem,--memory:num! "
     "-d,--dynamic",
     {},
     {},
     Print::Nothing,
     "Sets the quota of a bundle, or the default",
     [](Call& call) {
       const Command row{{}, {}, "POST /", kQuotaBody};
       return quotas(call, "POST", make_request(row, call.values).body);
     }},
    {"reset-namespace-bundle-quota",
     "-n,--namespace-name,--namespace:text! -b,--bundle:text!",
     {},
     {},
     Print::Nothing,
     "Gives a bundle the default quota again",
     [](Call& call) { return quotas(call, "DELETE", ""); }},
};

constexpr std::string_view kGroup =
    "<group> -mp,--msg-publish-rate:int -bp,--byte-publish-rate:int "
    "-md,--msg-dispatch-rate:int -bd,--byte-dispatch-rate:int";
constexpr std::string_view kGroupBody =
    R"({"publishRateInMsgs":"$msg-publish-rate","publishRateInBytes":"$byte-publish-rate","dispatchRateInMsgs":"$msg-dispatch-rate","dispatchRateInBytes":"$byte-dispatch-rate"})";
constexpr Command kResourceGroups[] = {
    {"list", "", "GET /admin/v2/resourcegroups", {}, Print::Lines, "Lists the resource groups"},
    {"get",
     "<group>",
     "GET /admin/v2/resourcegroups/{group}",
     {},
     Print::Json,
     "Shows a resource group"},
    {"create", kGroup, "PUT /admin/v2/resourcegroups/{group}", kGroupBody, Print::Nothing,
     "Creates a resource group"},
    {"update", kGroup, "PUT /admin/v2/resourcegroups/{group}", kGroupBody, Print::Nothing,
     "Changes a resource group"},
    {"delete",
     "<group>",
     "DELETE /admin/v2/resourcegroups/{group}",
     {},
     Print::Nothing,
     "Deletes a resource group"},
};

constexpr Command kProxyStats[] = {
    {"connections",
     "-i,--indent",
     "GET /proxy-stats/connections",
     {},
     Print::Raw,
     "Shows the connections of a proxy"},
    {"topics",
     "-i,--indent",
     "GET /proxy-stats/topics",
     {},
     Print::Raw,
     "Shows the topics of a proxy"},
};

}  // namespace

Group brokers_group() { return {"brokers", "Brokers and their settings", kBrokers}; }
Group broker_stats_group() { return {"broker-stats", "Statistics of the broker", kBrokerStats}; }
Group bookies_group() { return {"bookies", "Racks of bookies", kBookies}; }
Group resource_quotas_group() {
  return {"resource-quotas", "Expected load of bundles", kResourceQuotas};
}
Group resource_groups_group() {
  return {"resourcegroups", "Rates that namespaces share", kResourceGroups};
}
Group proxy_stats_group() { return {"proxy-stats", "Statistics of a proxy", kProxyStats}; }

}  // namespace geminga::admin_cli
