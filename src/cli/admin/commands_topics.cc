// `topics`: their life, subscriptions, statistics and messages.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <regex>
#include <thread>

#include "base/clock.h"
#include "broker/topic_name.h"
#include "cli/admin/arguments.h"
#include "cli/admin/command.h"
#include "cli/admin/explain.h"
#include "cli/admin/messages.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

std::string text(const Call& call, std::string_view name) {
  const json::value* value = call.values.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}
bool flag(const Call& call, std::string_view name) {
  const json::value* value = call.values.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

Result<json::value> ask_json(Call& call, std::string_view method, std::string_view pattern,
                             const std::string& body = {}) {
  GM_ASSIGN_OR_RETURN(const Answer answer,
                      call.client.must(method, make_target(pattern, call.values), body));
  return parse_json(answer.body.empty() ? "null" : answer.body);
}

std::string id_text(const json::value& id) {
  const auto number = [&](const char* name) {
    const json::value* value = id.is_object() ? id.get_object().if_contains(name) : nullptr;
    return value != nullptr && value->is_int64() ? std::to_string(value->get_int64())
                                                 : std::string("-1");
  };
  return number("ledgerId") + ":" + number("entryId") + ":" + number("partitionIndex");
}

// Both domains, one after the other.
Status list_in(Call& call, std::string_view rest) {
  const std::string wanted = text(call, "topic-domain");
  for (const char* domain : {"persistent", "non-persistent"}) {
    if (!wanted.empty() && (wanted == "persistent") != (domain == std::string_view("persistent")))
      continue;
    GM_ASSIGN_OR_RETURN(const Answer answer,
                        call.client.must("GET", make_target("/admin/v2/" + std::string(domain) +
                                                                "/{namespace}" + std::string(rest),
                                                            call.values)));
    print_text(render(Print::Lines, answer.body, false));
  }
  return Status::ok();
}

Status lookup(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value found, ask_json(call, "GET", "/lookup/v2/topic/{topic}"));
  print_text(plain(found.at("brokerUrl")) + "\n");
  return Status::ok();
}

Status partitioned_lookup(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value metadata,
                      ask_json(call, "GET", "/admin/v2/{topic}/partitions"));
  const std::int64_t partitions = metadata.at("partitions").to_number<std::int64_t>();
  const std::string name = text(call, "topic-name");
  if (partitions <= 0)
    return Status::InvalidArgument("Topic " + name + " is not a partitioned topic");
  json::object by_broker;
  for (std::int64_t i = 0; i < partitions; ++i) {
    const std::string partition = "-partition-" + std::to_string(i);
    GM_ASSIGN_OR_RETURN(
        const json::value found,
        ask_json(call, "GET", "/lookup/v2/topic/" + text(call, "topic") + partition));
    const std::string broker = plain(found.at("brokerUrl"));
    if (!flag(call, "sort-by-broker")) {
      print_text(name + partition + "    " + broker + "\n");
      continue;
    }
    json::value& topics = by_broker[broker];
    if (!topics.is_array()) topics = json::array();
    topics.get_array().emplace_back(name + partition);
  }
  for (const auto& [broker, topics] : by_broker)
    print_text(std::string(broker) + "    " + plain(topics) + "\n");
  return Status::ok();
}

// The topics that `delete` means: one, those in a file, or those that a pattern matches.
Result<std::vector<std::string>> topics_to_delete(Call& call) {
  const std::string given = text(call, "topics");
  std::vector<std::string> names;
  if (flag(call, "from-file")) {
    std::ifstream file(given);
    if (!file) return Status::Io("cannot read the list of topics " + given);
    for (std::string line; std::getline(file, line);) {
      if (!line.empty()) names.push_back(line);
    }
    return names;
  }
  if (!flag(call, "regex")) return std::vector<std::string>{given};
  GM_ASSIGN_OR_RETURN(const TopicName pattern, TopicName::parse_lenient(given));
  try {
    const std::regex wanted(pattern.full());
    for (const char* domain : {"persistent", "non-persistent"}) {
      GM_ASSIGN_OR_RETURN(const json::value list, ask_json(call, "GET",
                                                           "/admin/v2/" + std::string(domain) +
                                                               "/" + std::string(pattern.ns())));
      for (const json::value& each : list.as_array()) {
        if (std::regex_match(std::string(each.as_string()), wanted))
          names.emplace_back(each.as_string());
      }
    }
  } catch (const std::regex_error& error) {
    return Status::InvalidArgument("'" + given + "' is no regular expression: " + error.what());
  }
  return names;
}

// Unlike pulsar-admin it fails if a topic could not be deleted.
Status delete_topics(Call& call) {
  GM_ASSIGN_OR_RETURN(const auto names, topics_to_delete(call));
  Status first;
  for (const std::string& name : names) {
    const auto path = topic_path(name);
    Status deleted = path.status();
    if (path) {
      deleted =
          call.client
              .must("DELETE", make_target("/admin/v2/" + *path + "?force={force}&deleteSchema=true",
                                          call.values))
              .status();
    }
    if (!deleted && first.is_ok())
      first =
          Status::PreconditionFailed("Failed to delete topic: " + name + ". " + deleted.message());
  }
  return first;
}

Status create_subscription(Call& call) {
  json::object body = call.values.at("messageId").as_object();
  if (const auto* properties = call.values.if_contains("property"))
    body["properties"] = *properties;
  return call.client
      .must("PUT",
            make_target("/admin/v2/{topic}/subscription/{subscription}?replicated={replicated}",
                        call.values),
            to_json(body))
      .status();
}

Status update_subscription_properties(Call& call) {
  const json::value* properties = call.values.if_contains("property");
  if (properties == nullptr && !flag(call, "clear"))
    return Status::InvalidArgument("missing: --property or --clear");
  return call.client
      .must("PUT",
            make_target("/admin/v2/{topic}/subscription/{subscription}/properties", call.values),
            flag(call, "clear") ? "{}" : to_json(*properties))
      .status();
}

std::string position_body(const Call& call, const char* name) {
  json::object body = call.values.at(name).as_object();
  body["excluded"] = flag(call, "exclude-reset-position");
  return to_json(body);
}

Status expire(Call& call) {
  const std::string path = "/admin/v2/{topic}/subscription/{subscription}/expireMessages";
  if (call.values.contains("position"))
    return call.client.must("POST", make_target(path, call.values), position_body(call, "position"))
        .status();
  if (!call.values.contains("expireTime"))
    return Status::InvalidArgument("missing: --expireTime or --position");
  return call.client.must("POST", make_target(path + "/{expireTime}", call.values)).status();
}

Status reset_cursor(Call& call) {
  const std::string path = "/admin/v2/{topic}/subscription/{subscription}/resetcursor";
  if (call.values.contains("messageId"))
    return call.client
        .must("POST", make_target(path, call.values), position_body(call, "messageId"))
        .status();
  if (!call.values.contains("time"))
    return Status::InvalidArgument("missing: --time or --messageId");
  const std::int64_t at = now_ms() - call.values.at("time").as_int64();
  return call.client.must("POST", make_target(path, call.values) + "/" + std::to_string(at))
      .status();
}

Status peek(Call& call) {
  const std::int64_t count = call.values.at("count").as_int64();
  std::int64_t shown_messages = 0;
  for (std::int64_t i = 1; shown_messages < count; ++i) {
    GM_ASSIGN_OR_RETURN(
        const Answer answer,
        call.client.ask("GET", make_target("/admin/v2/{topic}/subscription/{subscription}"
                                           "/position/" +
                                               std::to_string(i),
                                           call.values)));
    if (answer.status == 404 && answer.reason() == "Message not found") break;  // no more
    if (!answer.ok()) return Status::PreconditionFailed(answer.reason());
    GM_ASSIGN_OR_RETURN(const std::string shown, show_messages(answer));
    const std::string in_batch = answer.header("x-pulsar-num-batch-message");
    shown_messages += in_batch.empty() ? 1 : std::max(std::atoi(in_batch.c_str()), 1);
    print_text((i > 1 ? std::string(kRule) + "\n" : "") + shown);
  }
  return Status::ok();
}

Status show_message(Call& call, std::string_view pattern, bool by_id) {
  GM_ASSIGN_OR_RETURN(const Answer answer,
                      call.client.must("GET", make_target(pattern, call.values)));
  GM_ASSIGN_OR_RETURN(const std::string shown, show_messages(answer, by_id));
  print_text(shown);
  return Status::ok();
}

Status terminate(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value id, ask_json(call, "POST", "/admin/v2/{topic}/terminate"));
  print_text("Topic successfully terminated at " + id_text(id) + "\n");
  return Status::ok();
}

Status terminate_partitions(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value ids,
                      ask_json(call, "POST", "/admin/v2/{topic}/terminate/partitions"));
  if (!ids.is_object()) return Status::InvalidArgument("the broker answers no map of partitions");
  for (const auto& [partition, id] : ids.get_object()) {
    print_text("Topic " + text(call, "topic-name") + "-partition-" + std::string(partition) +
               " successfully terminated at " + id_text(id) + "\n");
  }
  return Status::ok();
}

Status compact(Call& call) {
  GM_RETURN_IF_ERROR(
      call.client.must("PUT", make_target("/admin/v2/{topic}/compaction", call.values)).status());
  print_text("Topic compaction requested for " + text(call, "topic-name") + "\n");
  return Status::ok();
}

// Asks until nothing runs any more, if that is wanted.
Result<json::value> long_running(Call& call, const std::string& pattern) {
  auto pause = std::chrono::milliseconds(100);
  while (true) {
    GM_ASSIGN_OR_RETURN(json::value status, ask_json(call, "GET", pattern));
    if (!flag(call, "wait-complete") || plain(status.at("status")) != "RUNNING") return status;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(2000));
  }
}

Status compaction_status(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value found, long_running(call, "/admin/v2/{topic}/compaction"));
  const std::string status = plain(found.at("status"));
  if (status == "NOT_RUN") {
    print_text("Compaction has not been run for " + text(call, "topic-name") +
               " since broker startup\n");
  } else if (status == "RUNNING") {
    print_text("Compaction is currently running\n");
  } else if (status == "SUCCESS") {
    print_text("Compaction was a success\n");
  } else {
    print_text("Error in compaction\n");
    return Status::PreconditionFailed("Error compacting: " + plain(found.at("lastError")));
  }
  return Status::ok();
}

// The position before which more than the threshold lies in the newest ledgers.
Status offload(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value stats,
                      ask_json(call, "GET", "/admin/v2/{topic}/internalStats?metadata=false"));
  const std::int64_t keep = call.values.at("size-threshold").as_int64();
  const json::array& ledgers = stats.at("ledgers").as_array();
  std::int64_t size = stats.at("currentLedgerSize").to_number<std::int64_t>();
  json::object before;
  for (std::size_t i = ledgers.size(); i-- > 0;) {
    if (i + 1 < ledgers.size()) size += ledgers[i].at("size").to_number<std::int64_t>();
    if (size > keep) {
      before = {{"ledgerId", ledgers[i].at("ledgerId")},
                {"entryId", 0},
                {"partitionIndex", -1},
                {"batchIndex", -1},
                {"batchSize", 0}};
      break;
    }
  }
  if (before.empty()) {
    print_text("Nothing to offload\n");
    return Status::ok();
  }
  GM_RETURN_IF_ERROR(
      call.client
          .must("PUT", make_target("/admin/v2/{topic}/offload", call.values), to_json(before))
          .status());
  print_text("Offload triggered for " + text(call, "topic-name") + " for messages before " +
             id_text(before) + "\n");
  return Status::ok();
}

Status offload_status(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value found, long_running(call, "/admin/v2/{topic}/offload"));
  const std::string status = plain(found.at("status"));
  if (status == "NOT_RUN") {
    print_text("Offload has not been run for " + text(call, "topic-name") +
               " since broker startup\n");
  } else if (status == "RUNNING") {
    print_text("Offload is currently running\n");
  } else if (status == "SUCCESS") {
    print_text("Offload was a success\n");
  } else {
    print_text("Error in offload\n");
    return Status::PreconditionFailed("Error offloading: " + plain(found.at("lastError")));
  }
  return Status::ok();
}

Status create_partitioned(Call& call) {
  const std::string target =
      make_target("/admin/v2/{topic}/partitions?createLocalTopicOnly=false", call.values);
  if (const json::value* metadata = call.values.if_contains("metadata")) {
    const json::object body{{"partitions", call.values.at("partitions")},
                            {"deleted", false},
                            {"properties", *metadata}};
    return call.client
        .must("PUT", target, to_json(body), "application/vnd.partitioned-topic-metadata+json")
        .status();
  }
  return call.client.must("PUT", target, to_json(call.values.at("partitions"))).status();
}

Status create_shadow(Call& call) {
  GM_ASSIGN_OR_RETURN(const std::string source, topic_path(text(call, "source")));
  const std::string name = TopicName::parse_lenient(text(call, "source"))->full();
  GM_ASSIGN_OR_RETURN(const json::value metadata,
                      ask_json(call, "GET", "/admin/v2/" + source + "/partitions"));
  json::object properties;
  if (const auto* given = call.values.if_contains("properties")) properties = given->as_object();
  properties["PULSAR.SHADOW_SOURCE"] = name;
  const std::int64_t partitions = metadata.at("partitions").to_number<std::int64_t>();
  if (partitions == 0) {
    return call.client
        .must("PUT", make_target("/admin/v2/{topic}", call.values), to_json(properties))
        .status();
  }
  const json::object body{
      {"partitions", partitions}, {"deleted", false}, {"properties", properties}};
  return call.client
      .must("PUT",
            make_target("/admin/v2/{topic}/partitions?createLocalTopicOnly=false", call.values),
            to_json(body), "application/vnd.partitioned-topic-metadata+json")
      .status();
}

Status shadow_source(Call& call) {
  GM_ASSIGN_OR_RETURN(const json::value properties,
                      ask_json(call, "GET", "/admin/v2/{topic}/properties"));
  const json::value* source = properties.is_object()
                                  ? properties.get_object().if_contains("PULSAR.SHADOW_SOURCE")
                                  : nullptr;
  print_text((source == nullptr ? std::string("null") : plain(*source)) + "\n");
  return Status::ok();
}

#define T(path) "/admin/v2/{topic}" path
#define S(path) "/admin/v2/{topic}/subscription/{subscription}" path
constexpr std::string_view kSub = "topic -s,--subscription:text!";
constexpr std::string_view kStats =
    "topic -gpb,--get-precise-backlog -sbs,--get-subscription-backlog-size "
    "-etb,--get-earliest-time-in-backlog";

constexpr Command kCommands[] = {
    {"list",
     "namespace -td,--topic-domain:lower -b,--bundle:text -ist,--include-system-topic",
     {},
     {},
     Print::Nothing,
     "Lists the topics of a namespace",
     [](Call& call) {
       return list_in(call, "?bundle={bundle}&includeSystemTopic={include-system-topic}");
     }},
    {"list-partitioned-topics",
     "namespace -ist,--include-system-topic",
     {},
     {},
     Print::Nothing,
     "Lists the partitioned topics of a namespace",
     [](Call& call) {
       return list_in(call, "/partitioned?includeSystemTopic={include-system-topic}");
     }},
    {"list-in-bundle",
     "namespace -b,--bundle:text!",
     "GET /admin/v2/non-persistent/{namespace}/{bundle}",
     {},
     Print::Lines,
     "Lists the non-persistent topics of a bundle"},
    {"explain",
     "topic -s,--subscription:text!",
     {},
     {},
     Print::Nothing,
     "Tells why a subscription or its consumers get nothing now",
     explain},
    {"permissions", "topic", "GET " T("/permissions"), {}, Print::Map, "Shows who may do what"},
    {"grant-permission", "topic -r,--role:text! -a,--actions:list!",
     "POST " T("/permissions/{role}"), R"("$actions")", Print::Nothing,
     "Lets a role do something with a topic"},
    {"revoke-permission",
     "topic -r,--role:text!",
     "DELETE " T("/permissions/{role}"),
     {},
     Print::Nothing,
     "Takes a role's permissions"},
    {"lookup", "topic", {}, {}, Print::Nothing, "Shows the broker that serves a topic", lookup},
    {"partitioned-lookup",
     "topic -s,--sort-by-broker",
     {},
     {},
     Print::Nothing,
     "Shows the brokers that serve the partitions",
     partitioned_lookup},
    {"bundle-range",
     "topic",
     "GET /lookup/v2/topic/{topic}/bundle",
     {},
     Print::Text,
     "Shows the bundle of a topic"},
    {"delete",
     "<topics> -f,--force --from-file -r,--regex -d,--deleteSchema",
     {},
     {},
     Print::Nothing,
     "Deletes a topic, or those in a file or of a pattern",
     delete_topics},
    {"truncate",
     "topic",
     "DELETE " T("/truncate"),
     {},
     Print::Nothing,
     "Deletes all messages of a topic"},
    {"unload", "topic", "PUT " T("/unload"), {}, Print::Nothing, "Unloads a topic"},
    {"subscriptions",
     "topic",
     "GET " T("/subscriptions"),
     {},
     Print::Lines,
     "Lists the subscriptions of a topic"},
    {"unsubscribe",
     "topic -s,--subscription:text! -f,--force",
     "DELETE " S("?force={force}"),
     {},
     Print::Nothing,
     "Deletes a subscription"},
    {"create-subscription",
     "topic -s,--subscription:text! -m,--messageId:id=latest -r,--replicated -p,--property:map",
     {},
     {},
     Print::Nothing,
     "Creates a subscription",
     create_subscription},
    {"update-subscription-properties",
     "topic -s,--subscription:text! -p,--property:map -c,--clear",
     {},
     {},
     Print::Nothing,
     "Replaces or removes the properties of a subscription",
     update_subscription_properties},
    {"get-subscription-properties", kSub, "GET " S("/properties"), {}, Print::Text},
    {"stats",
     kStats,
     "GET " T("/stats?getPreciseBacklog={get-precise-backlog}&subscriptionBacklogSize=true"
              "&getEarliestTimeInBacklog={get-earliest-time-in-backlog}&excludePublishers=false"
              "&excludeConsumers=false"),
     {},
     Print::Json,
     "Shows the statistics of a topic"},
    {"stats-internal",
     "topic -m,--metadata",
     "GET " T("/internalStats?metadata={metadata}"),
     {},
     Print::Json,
     "Shows the ledgers and cursors of a topic"},
    {"info-internal",
     "topic",
     "GET " T("/internal-info"),
     {},
     Print::Gson,
     "Shows what is stored about a topic's log"},
    {"partitioned-stats",
     "topic -gpb,--get-precise-backlog -sbs,--get-subscription-backlog-size "
     "-etb,--get-earliest-time-in-backlog --per-partition",
     "GET " T("/partitioned-stats?perPartition={per-partition}"
              "&getPreciseBacklog={get-precise-backlog}&subscriptionBacklogSize=true"
              "&getEarliestTimeInBacklog={get-earliest-time-in-backlog}&excludePublishers=false"
              "&excludeConsumers=false"),
     {},
     Print::Json,
     "Shows the statistics of a partitioned topic"},
    {"partitioned-stats-internal",
     "topic",
     "GET " T("/partitioned-internalStats"),
     {},
     Print::Json,
     "Shows the ledgers and cursors of all partitions"},
    {"skip",
     "topic -s,--subscription:text! -n,--count:int!",
     "POST " S("/skip/{count}"),
     {},
     Print::Nothing,
     "Skips messages of a subscription"},
    {"clear-backlog|skip-all",
     kSub,
     "POST " S("/skip_all"),
     {},
     Print::Nothing,
     "Skips all messages of a subscription"},
    {"expire-messages",
     "topic -s,--subscription:text! -t,--expireTime:sec -p,--position:position "
     "-e,--exclude-reset-position",
     {},
     {},
     Print::Nothing,
     "Acknowledges messages older than a time or before a position",
     expire},
    {"expire-messages-all-subscriptions",
     "topic -t,--expireTime:sec!",
     "POST " T("/all_subscription/expireMessages/{expireTime}"),
     {},
     Print::Nothing,
     "Acknowledges messages older than a time on all subscriptions"},
    {"create-partitioned-topic",
     "topic -p,--partitions:int! -m,--metadata:map",
     {},
     {},
     Print::Nothing,
     "Creates a partitioned topic",
     create_partitioned},
    {"create-missed-partitions",
     "topic",
     "POST " T("/createMissedPartitions"),
     {},
     Print::Nothing,
     "Creates partitions that are missing"},
    {"create", "topic -m,--metadata:map={}", "PUT " T(""), R"("$metadata")", Print::Nothing,
     "Creates a topic without partitions"},
    {"update-partitioned-topic", "topic -p,--partitions:int! -ulo,--update-local-only -f,--force",
     "POST " T("/partitions?updateLocalTopicOnly={update-local-only}&force={force}"),
     R"("$partitions")", Print::Nothing, "Raises the number of partitions"},
    {"get-partitioned-topic-metadata", "topic", "GET " T("/partitions"), {}, Print::Json},
    {"get-properties", "topic", "GET " T("/properties"), {}, Print::Map},
    {"update-properties", "topic -p,--property:map!", "PUT " T("/properties"), R"("$property")",
     Print::Nothing, "Adds to the properties of a topic"},
    {"remove-properties",
     "topic -k,--key:text!",
     "DELETE " T("/properties?key={key}"),
     {},
     Print::Nothing,
     "Removes a property of a topic"},
    {"delete-partitioned-topic",
     "topic -f,--force -d,--deleteSchema",
     "DELETE " T("/partitions?force={force}&deleteSchema=true"),
     {},
     Print::Nothing,
     "Deletes a partitioned topic"},
    {"peek-messages",
     "topic -s,--subscription:text! -n,--count:int=1 -ssm,--show-server-marker "
     "-til,--transaction-isolation-level:text",
     {},
     {},
     Print::Nothing,
     "Shows the next messages of a subscription",
     peek},
    {"examine-messages",
     "topic -i,--initialPosition:lower=latest -m,--messagePosition:int=1",
     {},
     {},
     Print::Nothing,
     "Shows a message counted from an end of the topic",
     [](Call& call) {
       return show_message(call,
                           T("/examinemessage?initialPosition={initialPosition}"
                             "&messagePosition={messagePosition}"),
                           false);
     }},
    {"get-message-by-id",
     "topic -l,--ledgerId:int! -e,--entryId:int!",
     {},
     {},
     Print::Nothing,
     "Shows a message",
     [](Call& call) { return show_message(call, T("/ledger/{ledgerId}/entry/{entryId}"), true); }},
    {"get-message-id",
     "topic -d,--datetime:date!",
     "GET " T("/messageid/{datetime}"),
     {},
     Print::Json,
     "Shows the first message of a time"},
    {"reset-cursor",
     "topic -s,--subscription:text! -t,--time:ms -m,--messageId:id -e,--exclude-reset-position",
     {},
     {},
     Print::Nothing,
     "Moves a subscription to a time ago or a message",
     reset_cursor},
    {"terminate",
     "topic",
     {},
     {},
     Print::Nothing,
     "Ends a topic: nothing can be published any more",
     terminate},
    {"partitioned-terminate",
     "topic",
     {},
     {},
     Print::Nothing,
     "Ends all partitions of a topic",
     terminate_partitions},
    {"compact", "topic", {}, {}, Print::Nothing, "Begins to compact a topic", compact},
    {"compaction-status",
     "topic -w,--wait-complete",
     {},
     {},
     Print::Nothing,
     "Tells how the last compaction went",
     compaction_status},
    {"offload",
     "topic -s,--size-threshold:size!",
     {},
     {},
     Print::Nothing,
     "Begins to move a topic's data to long-term storage",
     offload},
    {"offload-status",
     "topic -w,--wait-complete",
     {},
     {},
     Print::Nothing,
     "Tells how the last offload went",
     offload_status},
    {"last-message-id",
     "topic",
     "GET " T("/lastMessageId"),
     {},
     Print::Json,
     "Shows the id of the last message"},
    {"get-retention",
     "topic -ap,--applied",
     "GET " T("/retention?applied={applied}"),
     {},
     Print::Json},
    {"set-replicated-subscription-status",
     "topic -s,--subscription:text! -e,--enable@on=true -d,--disable@on=false",
     "POST " S("/replicatedSubscriptionStatus"), R"("$on")"},
    {"get-replicated-subscription-status",
     kSub,
     "GET " S("/replicatedSubscriptionStatus"),
     {},
     Print::Map},
    {"get-backlog-size", "topic -m,--messageId:id=earliest", "PUT " T("/backlogSize"),
     R"("$messageId")", Print::Json},
    {"analyze-backlog", "topic -s,--subscription:text! -p,--position:position",
     "POST " S("/analyzeBacklog"), R"("$position")", Print::Json,
     "Counts what is in the backlog of a subscription, reading it"},
    {"get-replication-clusters",
     "topic -ap,--applied",
     "GET " T("/replication?applied={applied}"),
     {},
     Print::Json},
    {"set-replication-clusters", "topic -c,--clusters:list!", "POST " T("/replication"),
     R"("$clusters")"},
    {"remove-replication-clusters", "topic", "DELETE " T("/replication")},
    {"get-shadow-topics", "topic", "GET " T("/shadowTopics"), {}, Print::Lines},
    {"set-shadow-topics", "topic -t,--topics:list!", "PUT " T("/shadowTopics"), R"("$topics")"},
    {"remove-shadow-topics", "topic", "DELETE " T("/shadowTopics")},
    {"create-shadow-topic",
     "topic -s,--source:text! -p,--properties:map",
     {},
     {},
     Print::Nothing,
     "Creates a topic that shows the messages of another",
     create_shadow},
    {"get-shadow-source", "topic", {}, {}, Print::Nothing, {}, shadow_source},
    {"get-schema-validation-enforce",
     "topic -ap,--applied",
     "GET " T("/schemaValidationEnforced?applied={applied}"),
     {},
     Print::Json},
    {"set-schema-validation-enforce", "topic -e,--enable -d,--disable",
     "POST " T("/schemaValidationEnforced"), R"("$enable")"},
    {"trim-topic",
     "topic",
     "POST " T("/trim"),
     {},
     Print::Nothing,
     "Removes ledgers that nothing needs any more"},
};

#undef T
#undef S

}  // namespace

Group topics_group() {
  return {"topics|persistent|non-persistent", "Topics and subscriptions", kCommands};
}

}  // namespace geminga::admin_cli
