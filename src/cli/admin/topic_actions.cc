#include "cli/admin/topic_actions.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "broker/topic_name.h"
#include "cli/admin/arguments.h"
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

std::string position_body(const Call& call, const char* name) {
  json::object body = call.values.at(name).as_object();
  body["excluded"] = flag(call, "exclude-reset-position");
  return to_json(body);
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

}  // namespace

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

// Does `peek` pass over it? Markers are the broker's own entries in the log.
bool hidden(const Call& call, const Answer& answer) {
  if (!answer.header("x-pulsar-marker-type").empty() && !flag(call, "show-server-marker"))
    return true;
  if (text(call, "transaction-isolation-level") == "READ_UNCOMMITTED") return false;
  return answer.header("x-pulsar-txn-aborted") == "true" ||
         answer.header("x-pulsar-txn-uncommitted") == "true";
}

Status peek(Call& call) {
  const std::string isolation = text(call, "transaction-isolation-level");
  if (isolation != "READ_COMMITTED" && isolation != "READ_UNCOMMITTED") {
    return Status::InvalidArgument("--transaction-isolation-level: '" + isolation +
                                   "' is not READ_COMMITTED or READ_UNCOMMITTED");
  }
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
    if (hidden(call, answer)) continue;
    GM_ASSIGN_OR_RETURN(const std::string shown, show_messages(answer));
    print_text((shown_messages > 0 ? std::string(kRule) + "\n" : "") + shown);
    const std::string in_batch = answer.header("x-pulsar-num-batch-message");
    std::int64_t messages = 1;
    std::from_chars(in_batch.data(), in_batch.data() + in_batch.size(), messages);
    shown_messages += std::max<std::int64_t>(messages, 1);
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

}  // namespace geminga::admin_cli
