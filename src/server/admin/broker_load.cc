// How loaded the broker is, as Pulsar's load balancer and its older monitoring ask for it.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/config.h"
#include "server/admin/broker_stats.h"

namespace geminga {

namespace json = boost::json;

namespace {

std::int64_t consumers_of(const TopicStats& stats) {
  std::size_t total = 0;
  for (const SubscriptionStats& sub : stats.subscriptions) total += sub.consumers.size();
  return static_cast<std::int64_t>(total);
}

// Processor time used since the start, in seconds; and how much memory is in use.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}
double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

const std::int64_t kStartedNs = monotonic_ns();

// Percent of one processor, on average since the last call, the first time since the start.
double cpu_percent() {
  static std::atomic<double> last_cpu{0};
  static std::atomic<std::int64_t> last_ns{kStartedNs};
  const std::int64_t now = monotonic_ns();
  const double cpu = cpu_seconds();
  const std::int64_t since = now - last_ns.exchange(now);
  const double used = cpu - last_cpu.exchange(cpu);
  return since <= 0 ? 0 : 100.0 * used / (static_cast<double>(since) / 1e9);
}

json::object usage(double used, double limit) { return {{"usage", used}, {"limit", limit}}; }

struct BundleLoad {
  double rate_in = 0, throughput_in = 0, rate_out = 0, throughput_out = 0;
  std::int64_t consumers = 0, producers = 0, topics = 0;
  std::int64_t backlog = 0, stored = 0, subscriptions = 0;

  void add(const TopicStats& stats) {
    rate_in += stats.msg_rate_in;
    throughput_in += stats.msg_throughput_in;
    rate_out += sum(stats, &SubscriptionStats::msg_rate_out);
    throughput_out += sum(stats, &SubscriptionStats::msg_throughput_out);
    consumers += consumers_of(stats);
    producers += static_cast<std::int64_t>(stats.publishers.size());
    backlog += sum(stats, &SubscriptionStats::msg_backlog);
    stored += stats.storage_size;
    subscriptions += static_cast<std::int64_t>(stats.subscriptions.size());
    ++topics;
  }
  void add(const BundleLoad& other) {
    rate_in += other.rate_in;
    throughput_in += other.throughput_in;
    rate_out += other.rate_out;
    throughput_out += other.throughput_out;
    consumers += other.consumers;
    producers += other.producers;
    topics += other.topics;
  }
};
using Loads = std::map<std::string, BundleLoad>;

// What `key` makes of a topic's name, with the load of its topics.
Task<Loads> loads(Broker& broker, std::function<std::string(const TopicName&)> key) {
  Loads found;
  // One shard after the other, each on its own thread while this waits.
  std::function<void(const Topic&)> visit = [&found, &key](const Topic& topic) {
    found[key(topic.name())].add(topic.stats());
  };
  co_await broker.visit_topics(std::move(visit));
  co_return found;
}

json::object load_json(const BundleLoad& load) {
  json::object out;
  out["msgRateIn"] = load.rate_in;
  out["msgThroughputIn"] = load.throughput_in;
  out["msgRateOut"] = load.rate_out;
  out["msgThroughputOut"] = load.throughput_out;
  out["consumerCount"] = load.consumers;
  out["producerCount"] = load.producers;
  out["topics"] = load.topics;
  out["cacheSize"] = 0;
  return out;
}

double processors() { return std::max(1u, std::thread::hardware_concurrency()); }
double mb(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Answer load_report(Admin& admin, HttpRequest&) {
  const std::vector<TopicName> topics = co_await admin.broker.loaded_topics();
  auto bundles_of = co_await Bundles::of(admin, topics);
  if (!bundles_of) co_return bundles_of.status();
  std::function<std::string(const TopicName&)> key = [&bundles_of](const TopicName& name) {
    return std::string(name.ns()) + '/' + bundles_of->bundle(name);
  };
  const Loads by_bundle = co_await loads(admin.broker, std::move(key));
  const auto config = admin.live();
  const MemoryBudget& memory = admin.broker.runtime().memory();
  json::object bundles;
  json::array names;
  BundleLoad all;
  for (const auto& [name, load] : by_bundle) {
    bundles[name] = load_json(load);
    names.push_back(json::string(name));
    all.add(load);
  }
  const double cpu = cpu_percent();
  const double cpu_limit = 100.0 * processors();
  const double used = mb(memory.used());
  const double limit = mb(memory.limit());
  json::object out;
  out["webServiceUrl"] = admin.broker.addresses().web_service_url;
  out["pulsarServiceUrl"] = admin.broker.addresses().service_url;
  out["persistentTopicsEnabled"] = config->enable_persistent_topics;
  out["nonPersistentTopicsEnabled"] = config->enable_non_persistent_topics;
  out["cpu"] = usage(cpu, cpu_limit);
  out["memory"] = usage(resident_mb(), limit);
  out["directMemory"] = usage(used, limit);
  out["bandwidthIn"] = usage(all.throughput_in / 1024, -1.0);
  out["bandwidthOut"] = usage(all.throughput_out / 1024, -1.0);
  out["msgThroughputIn"] = all.throughput_in;
  out["msgThroughputOut"] = all.throughput_out;
  out["msgRateIn"] = all.rate_in;
  out["msgRateOut"] = all.rate_out;
  out["lastUpdate"] = now_ms();
  out["lastStats"] = std::move(bundles);
  out["numTopics"] = all.topics;
  out["numBundles"] = static_cast<std::int64_t>(names.size());
  out["numConsumers"] = all.consumers;
  out["numProducers"] = all.producers;
  out["bundles"] = names;
  out["lastBundleGains"] = json::array();
  out["lastBundleLosses"] = json::array();
  out["brokerVersionString"] = kApiVersion;
  out["protocols"] = json::object();
  out["advertisedListeners"] = json::object();
  out["loadManagerClassName"] = "geminga";
  out["startTimestamp"] = admin.started_ms;
  out["maxResourceUsage"] = std::max(cpu / cpu_limit, limit > 0 ? used / limit : 0);
  out["loadReportType"] = "LocalBrokerData";
  co_return json_answer(out);
}

json::object group(json::object metrics, json::object dimensions) {
  json::object out;
  out["metrics"] = std::move(metrics);
  out["dimensions"] = std::move(dimensions);
  return out;
}

// By namespace, under the names that Pulsar's older monitoring knows.
json::array namespace_groups(const Loads& by_namespace) {
  json::array groups;
  for (const auto& [ns, load] : by_namespace) {
    groups.push_back(group({{"brk_in_rate", load.rate_in},
                            {"brk_in_tp_rate", load.throughput_in},
                            {"brk_max_replication_delay_second", 0.0},
                            {"brk_msg_backlog", load.backlog},
                            {"brk_no_of_consumers", load.consumers},
                            {"brk_no_of_producers", load.producers},
                            {"brk_no_of_replicators", 0},
                            {"brk_no_of_subscriptions", load.subscriptions},
                            {"brk_out_rate", load.rate_out},
                            {"brk_out_tp_rate", load.throughput_out},
                            {"brk_replication_backlog", 0.0},
                            {"brk_storage_size", load.stored}},
                           {{"namespace", ns}}));
  }
  return groups;
}

Answer metrics(Admin& admin, HttpRequest&) {
  std::function<std::string(const TopicName&)> key = [](const TopicName& name) {
    return std::string(name.ns());
  };
  const Loads by_namespace = co_await loads(admin.broker, std::move(key));
  std::int64_t topics = 0;
  for (const auto& [ns, load] : by_namespace) topics += load.topics;
  json::array groups = namespace_groups(by_namespace);
  const std::string broker = admin.config().advertised_address;
  const MemoryBudget& memory = admin.broker.runtime().memory();
  groups.push_back(group(
      {{"brk_ml_cache_used_size", memory.used(MemoryUse::Cache)}, {"brk_ml_count", topics}}, {}));
  groups.push_back(group({{"brk_lb_cpu_usage", cpu_percent() / processors()},
                          {"brk_lb_memory_usage", 100.0 * mb(memory.used()) / mb(memory.limit())}},
                         {{"broker", broker}, {"metric", "loadBalancing"}}));
  co_return json_answer(groups);
}

// There is no virtual machine here whose beans could be shown; what its users look for is the
// memory.
Answer beans(Admin& admin, HttpRequest&) {
  const MemoryBudget& memory = admin.broker.runtime().memory();
  json::object uses;
  for (int use = 0; use < static_cast<int>(MemoryUse::kCount); ++use) {
    const auto kind = static_cast<MemoryUse>(use);
    uses[to_string(kind)] = memory.used(kind);
  }
  uses["limit"] = memory.limit();
  json::array groups;
  groups.push_back(group(std::move(uses), {{"MBean", "geminga:type=Memory"}}));
  co_return json_answer(groups);
}

// Memory is one budget with uses, not arenas: their lists are empty.
Answer allocator(Admin& admin, HttpRequest& request) {
  const std::string& name = request.param("allocator");
  if (name != "default" && name != "ml-cache")
    co_return Status::NotFound("there is no allocator '" + name + "'; default and ml-cache are");
  const MemoryBudget& memory = admin.broker.runtime().memory();
  json::object out;
  for (const char* zero : {"numDirectArenas", "numHeapArenas", "numThreadLocalCaches",
                           "normalCacheSize", "smallCacheSize"}) {
    out[zero] = 0;
  }
  out["usedDirectMemory"] = name == "default" ? memory.used() : memory.used(MemoryUse::Cache);
  out["usedHeapMemory"] = -1;
  out["directArenas"] = json::array();
  out["heapArenas"] = json::array();
  co_return json_answer(out);
}

// Operations on BookKeeper's ledgers: the embedded store has none of them.
Answer bookie_operations(Admin& admin, HttpRequest&) {
  const std::vector<TopicName> topics = co_await admin.broker.loaded_topics();
  json::object out;
  for (const TopicName& topic : topics) {
    if (!topic.persistent()) continue;
    json::value& ns = out[topic.ns()];
    if (!ns.is_object()) ns = json::object();
    json::object counts;
    for (const char* log : {"dataLedger", "cursorLedger"}) {
      for (const char* operation : {"OpenOp", "CloseOp", "CreateOp", "DeleteOp"})
        counts[std::string(log) + operation] = 0;
    }
    ns.get_object()[topic.full()] = std::move(counts);
  }
  co_return json_answer(out);
}

Answer availability(Admin&, HttpRequest&) {
  co_return Status::Conflict("a broker that stands alone does not support this operation");
}

#define GM_STATS "/admin/v2/broker-stats"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_STATS "/load-report", "How loaded the broker is", load_report},
    {HttpMethod::Get, GM_STATS "/metrics", "Metrics of the broker as JSON", metrics},
    {HttpMethod::Get, GM_STATS "/mbeans", "Memory by use, where Pulsar shows Java's beans", beans},
    {HttpMethod::Get, GM_STATS "/allocator-stats/{allocator}", "Memory of an allocator", allocator},
    {HttpMethod::Get, GM_STATS "/bookieops", "Operations on BookKeeper's ledgers",
     bookie_operations},
    {HttpMethod::Get, GM_STATS "/broker-resource-availability/{tenant}/{namespace}",
     "Refused: a broker that stands alone balances nothing", availability},
};

}  // namespace

void add_broker_load_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
