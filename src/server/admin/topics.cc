// Topics: create, delete, partitions, lists, properties, and what is done to a whole topic.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>

#include "base/config.h"
#include "schema/schema_registry.h"
#include "server/admin/admin.h"
#include "server/admin/bundles.h"
#include "server/admin/documents.h"
#include "server/admin/message_id_json.h"
#include "server/admin/namespace_document.h"

namespace geminga {

namespace json = boost::json;

namespace {

using Texts = std::map<std::string, std::string>;

Status exists_already() { return Status::AlreadyExists("This topic already exists"); }

std::string partitioned_path(const TopicName& name) {
  return "/admin/partitioned-topics/" + std::string(name.ns()) + '/' +
         std::string(to_string(name.domain())) + '/' + name.encoded_local();
}

Result<Texts> texts_of(const json::value& value) {
  Texts texts;
  if (value.is_null()) return texts;
  if (!value.is_object()) return Status::Protocol("properties are an object of texts");
  for (const auto& member : value.get_object()) {
    if (!member.value().is_string()) return Status::Protocol("properties are an object of texts");
    texts[std::string(member.key())] = std::string(member.value().get_string());
  }
  return texts;
}

// Is the name taken, by a topic or a partitioned one?
Task<Result<bool>> taken(Admin& admin, TopicName name) {
  auto partitions = co_await admin.broker.partition_count(name);
  if (!partitions) co_return partitions.status();
  if (*partitions > 0) co_return true;
  co_return co_await admin.broker.topic_exists(name);
}

// A partition can be created on its own only below its partitioned topic.
Task<Status> check_partition_name(Admin& admin, TopicName name) {
  if (!name.is_partition()) co_return Status::ok();
  auto count = co_await admin.broker.partition_count(name.base());
  if (!count) co_return count.status();
  if (*count == 0) {
    co_return Status::PreconditionFailed(
        fmt::format("Can't create topic {} with \"-partition-\" followed by numeric value if there "
                    "isn't a partitioned "
                    "topic {} created.",
                    name.local(), name.base_local()));
  }
  if (name.partition_index() >= *count) {
    co_return Status::PreconditionFailed(
        fmt::format("Can't create topic {} with \"-partition-\" followed by a number smaller than "
                    "number of partition "
                    "of partitioned topic {}",
                    name.local(), name.base_local()));
  }
  co_return Status::ok();
}

Answer create(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto properties = texts_of(body.value);
  if (!properties) co_return refusal_of(properties.status());
  Status may = co_await require_namespace(admin, name->namespace_name());
  if (!may) co_return may;
  may = co_await check_partition_name(admin, *name);
  if (!may) co_return may;
  auto is_taken = co_await taken(admin, *name);
  if (!is_taken) co_return is_taken.status();
  if (*is_taken) co_return exists_already();
  Status created = co_await admin.broker.create_topic(*name, std::move(*properties));
  if (created.is(ErrorCode::AlreadyExists) || created.is(ErrorCode::Conflict))
    co_return exists_already();
  // Of a full namespace; for partitioned topics the original says 412.
  if (created.is(ErrorCode::PreconditionFailed)) co_return Status::Conflict(created.message());
  if (!created) co_return created;
  co_return no_content();
}

// A deleted topic's policies go with it, and its schema unless the request keeps it.
Task<Status> forget(Admin& admin, HttpRequest& request, TopicName name) {
  Status removed = co_await admin.metadata().remove_recursive(topic_policies_path(name));
  if (!removed || !request.query_flag("deleteSchema", true)) co_return removed;
  const SchemaPlace place = admin.broker.schemas(name);
  auto there = [&registry = place.registry, name]() -> Task<Result<std::int64_t>> {
    return registry.remove(name.schema_id(), true);
  };
  auto version = co_await on_shard(place.shard, there);
  co_return version.status();
}

// "Topic has 2 connected producers/consumers"
Task<Status> still_used(Admin& admin, TopicName name) {
  Broker& broker = admin.broker;
  auto there = [&broker, name]() -> Task<std::size_t> {
    const std::shared_ptr<Topic> topic = broker.loaded_topic(name);
    co_return topic ? topic->producer_count() + topic->consumer_count() : 0;
  };
  const std::size_t connected = co_await on_shard(broker.shard_of(name), std::move(there));
  co_return Status::PreconditionFailed(
      fmt::format("Topic has {} connected producers/consumers", connected));
}

Answer remove(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto partitions = co_await admin.broker.partition_count(*name);
  if (!partitions) co_return partitions.status();
  if (*partitions > 0 && !name->is_partition()) {
    co_return Status::Conflict(
        name->full() +
        " is a partitioned topic, instead of calling delete topic, please call "
        "delete-partitioned-topic.");
  }
  Status deleted = co_await admin.broker.delete_topic(*name, request.query_flag("force", false));
  if (deleted.is(ErrorCode::TopicNotFound) || deleted.is(ErrorCode::NotFound))
    co_return topic_not_found(*name);
  if (deleted.is(ErrorCode::PreconditionFailed)) co_return co_await still_used(admin, *name);
  if (!deleted) co_return deleted;
  if (!name->is_partition()) {
    Status forgotten = co_await forget(admin, request, *name);
    if (!forgotten) co_return forgotten;
  }
  co_return no_content();
}

struct PartitionsBody {
  std::int32_t count = 0;
  Texts properties;
};

// "3": some clients quote numbers. Pulsar reads them, blank as 0.
std::optional<std::int64_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  std::int64_t number = 0;
  if (text.empty()) return number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A bare number, or {"partitions": n, "properties": {...}}; the number may be quoted.
Result<PartitionsBody> partitions_body(const json::value& body) {
  PartitionsBody out;
  const json::value* number = &body;
  if (body.is_object()) {
    number = body.get_object().if_contains("partitions");
    if (const json::value* properties = body.get_object().if_contains("properties")) {
      GM_ASSIGN_OR_RETURN(out.properties, texts_of(*properties));
    }
  }
  std::optional<std::int64_t> given;
  if (number != nullptr && number->is_int64()) given = number->get_int64();
  if (number != nullptr && number->is_string()) given = number_in(number->get_string());
  if (!given) {
    return Status::Protocol("Cannot deserialize value of type `int`: the number of partitions");
  }
  const std::int64_t count = *given;
  out.count = static_cast<std::int32_t>(std::clamp<std::int64_t>(count, -1, 1 << 20));
  return out;
}

// "a-partition-1-DLQ" is a topic's name, never that of a partitioned topic.
Status check_partitioned_name(const TopicName& name) {
  if (!name.persistent() || name.local().find("-partition-") == std::string_view::npos)
    return Status::ok();
  return Status::PreconditionFailed("Partitioned Topic Name should not contain '-partition-'");
}

Answer create_partitioned(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  if (Status valid = check_partitioned_name(*name); !valid) co_return valid;
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto wanted = partitions_body(body.value);
  if (!wanted) co_return refusal_of(wanted.status());
  Status may = co_await require_namespace(admin, name->namespace_name());
  if (!may) co_return may;
  if (wanted->count <= 0) co_return reason(406, "Number of partitions should be more than 0");
  const std::int64_t limit = admin.live()->max_num_partitions_per_partitioned_topic;
  if (limit > 0 && wanted->count > limit) {
    co_return reason(406,
                     fmt::format("Number of partitions should be less than or equal to {}", limit));
  }
  if (name->is_partition()) {
    co_return Status::PreconditionFailed("Partitioned Topic Name should not contain '-partition-'");
  }
  auto is_taken = co_await taken(admin, *name);
  if (!is_taken) co_return is_taken.status();
  if (*is_taken) co_return exists_already();
  Status created = co_await admin.broker.create_partitioned_topic(*name, wanted->count,
                                                                  std::move(wanted->properties));
  if (created.is(ErrorCode::AlreadyExists) || created.is(ErrorCode::Conflict))
    co_return exists_already();
  if (!created) co_return created;
  co_return no_content();
}

Answer update_partitioned(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto wanted = partitions_body(body.value);
  if (!wanted) co_return refusal_of(wanted.status());
  auto current = co_await admin.broker.partition_count(*name);
  if (!current) co_return current.status();
  if (*current == 0)
    co_return Status::Conflict("Topic " + name->full() + " is not the partitioned topic.");
  if (wanted->count < *current) {
    co_return reason(
        422, fmt::format("Desired partitions {} can't be less than the current partitions {}.",
                         wanted->count, *current));
  }
  const std::int64_t limit = admin.live()->max_num_partitions_per_partitioned_topic;
  if (limit > 0 && wanted->count > limit) {
    co_return reason(
        422, fmt::format(
                 "Desired partitions {} can't be greater than the maximum partitions per topic {}.",
                 wanted->count, limit));
  }
  Status updated = co_await admin.broker.update_partitions(*name, wanted->count);
  if (!updated) co_return updated;
  co_return no_content();
}

Answer get_partitioned(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  Status found = co_await require_namespace(admin, name->namespace_name());
  if (!found) co_return found;
  std::int32_t count = 0;
  if (request.query_flag("checkAllowAutoCreation", false)) {
    auto made = co_await admin.broker.partition_metadata(*name, true);
    if (made.is(ErrorCode::TopicNotFound) || made.is(ErrorCode::NotFound))
      co_return topic_not_found(*name);
    if (!made) co_return made.status();
    count = *made;
  } else {
    auto known = co_await admin.broker.partition_count(*name);
    if (!known) co_return known.status();
    count = *known;
    if (count == 0) {
      auto exists = co_await admin.broker.topic_exists(*name);
      if (!exists) co_return exists.status();
      if (!*exists) co_return topic_not_found(*name);
    }
  }
  json::object answer;
  answer["partitions"] = count;
  answer["deleted"] = false;
  if (count > 0) {
    auto document = co_await read_document(admin.metadata(), partitioned_path(*name));
    if (!document) co_return document.status();
    const json::value* properties =
        document->has_value() ? (*document)->if_contains("properties") : nullptr;
    // What a client asks before it produces leaves an empty map out.
    const bool shown =
        properties != nullptr && properties->is_object() &&
        !(properties->get_object().empty() && request.query_flag("checkAllowAutoCreation", false));
    if (shown) answer["properties"] = *properties;
  }
  co_return json_answer(answer);
}

Answer remove_partitioned(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count == 0) {
    auto exists = co_await admin.broker.topic_exists(*name);
    if (!exists) co_return exists.status();
    if (!*exists) co_return Status::NotFound("Topic " + name->full() + " not found.");
    co_return Status::Conflict(
        name->full() +
        " is a non-partitioned topic. Instead of calling delete-partitioned-topic please call "
        "delete.");
  }
  Status deleted =
      co_await admin.broker.delete_partitioned_topic(*name, request.query_flag("force", false));
  if (deleted.is(ErrorCode::PreconditionFailed)) {
    co_return Status::PreconditionFailed("Topic has active producers/subscriptions");
  }
  if (!deleted) co_return deleted;
  Status forgotten = co_await forget(admin, request, *name);
  if (!forgotten) co_return forgotten;
  co_return no_content();
}

Answer create_missed(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  if (Status valid = check_partitioned_name(*name); !valid) co_return valid;
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count == 0) co_return Status::NotFound("Topic " + name->full() + " does not exist");
  for (std::int32_t i = 0; i < *count; ++i) {
    const TopicName part = name->partition(i);
    auto exists = co_await admin.broker.topic_exists(part);
    if (!exists) co_return exists.status();
    if (*exists) continue;
    Status created = co_await admin.broker.create_topic(part, Texts());
    if (!created && !created.is(ErrorCode::AlreadyExists) && !created.is(ErrorCode::Conflict))
      co_return created;
  }
  co_return no_content();
}

Answer list_topics(Admin& admin, HttpRequest& request, std::string range) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto policies = co_await read_document(admin.metadata(), policies_path(*ns));
  if (!policies) co_return policies.status();
  if (!policies->has_value()) co_return Status::NotFound("Namespace does not exist");
  const bool old = !request.param("cluster").empty();
  const bool persistent = request.segments[old ? 1 : 2] == "persistent";
  auto names = co_await admin.broker.list_topics(ns->full(), persistent, !persistent,
                                                 request.query_flag("includeSystemTopic", false));
  if (!names) co_return names.status();
  if (!range.empty()) {
    const auto bundle = parse_bundle(range);
    if (!bundle) co_return Status::PreconditionFailed("Invalid bundle range " + range);
    std::erase_if(*names, [&](const std::string& text) {
      auto name = TopicName::parse(text);
      return !name || !bundle_holds(*bundle, name->bundle_hash());
    });
  }
  co_return text_list(*names);
}

Answer list(Admin& admin, HttpRequest& request) {
  return list_topics(admin, request, std::string(request.query_value("bundle").value_or("")));
}
Answer list_in_bundle(Admin& admin, HttpRequest& request) {
  return list_topics(admin, request, request.param("bundle"));
}

Answer list_partitioned(Admin& admin, HttpRequest& request) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  Status found = co_await require_namespace(admin, *ns);
  if (found.is(ErrorCode::NotFound)) co_return Status::NotFound("Namespace does not exist");
  if (!found) co_return found;
  const std::string domain = request.segments[2];
  auto names =
      co_await admin.metadata().children("/admin/partitioned-topics/" + ns->full() + '/' + domain);
  if (!names) co_return names.status();
  const bool system = request.query_flag("includeSystemTopic", false);
  std::vector<std::string> topics;
  for (const std::string& encoded : *names) {
    HttpRequest decoder;  // the name of the node is encoded as a path segment is
    if (!parse_target('/' + encoded, decoder) || decoder.segments.empty()) continue;
    auto name =
        TopicName::of(domain == "persistent" ? TopicDomain::Persistent : TopicDomain::NonPersistent,
                      *ns, decoder.segments[0]);
    if (name && (system || !name->is_system())) topics.push_back(name->full());
  }
  co_return text_list(topics);
}

Answer get_properties(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count > 0) {
    auto document = co_await read_document(admin.metadata(), partitioned_path(*name));
    if (!document) co_return document.status();
    const json::value* properties =
        document->has_value() ? (*document)->if_contains("properties") : nullptr;
    if (properties == nullptr || properties->is_null()) co_return ok_empty();
    co_return json_answer(*properties);
  }
  co_return co_await with_topic(admin, *name, [](std::shared_ptr<Topic> topic) -> Answer {
    if (topic->managed_ledger() == nullptr) co_return ok_empty();
    json::object out;
    for (const auto& [key, value] : topic->managed_ledger()->properties()) {
      if (!key.starts_with("pulsar.")) out[key] = value;  // those are the broker's own
    }
    co_return json_answer(out);
  });
}

Answer change_properties(Admin& admin, HttpRequest& request, Texts added, std::string removed) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count > 0) {
    DocumentChange apply = [&added, &removed](json::object& document) {
      json::value& properties = document["properties"];
      if (!properties.is_object()) properties = json::object();
      for (const auto& [key, value] : added) properties.get_object()[key] = value;
      properties.get_object().erase(removed);
      return Status::ok();
    };
    Status changed = co_await change_document(admin.metadata(), partitioned_path(*name), apply);
    if (!changed) co_return changed;
    co_return no_content();
  }
  auto work = [added, removed](std::shared_ptr<Topic> topic) -> Answer {
    if (topic->managed_ledger() == nullptr)
      co_return Status::NotAllowed("a non-persistent topic has no properties");
    Texts properties = topic->managed_ledger()->properties();
    for (const auto& [key, value] : added) properties[key] = value;
    properties.erase(removed);
    Status set = co_await topic->managed_ledger()->set_properties(std::move(properties));
    if (!set) co_return set;
    co_return no_content();
  };
  co_return co_await with_topic(admin, *name, std::move(work));
}

Answer set_properties(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto added = texts_of(body.value);
  if (!added) co_return refusal_of(added.status());
  for (const auto& [key, value] : *added) {
    if (key.starts_with("pulsar."))
      co_return Status::InvalidArgument("properties named pulsar.… are the broker's own");
  }
  co_return co_await change_properties(admin, request, std::move(*added), std::string());
}

Answer remove_property(Admin& admin, HttpRequest& request) {
  const auto key = request.query_value("key");
  if (!key || key->empty())
    co_return Status::PreconditionFailed("the query parameter 'key' names the property");
  co_return co_await change_properties(admin, request, Texts(), std::string(*key));
}

Answer unload(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto parts = co_await parts_of(admin, *name);
  if (!parts) co_return parts.status();
  for (const TopicName& part : *parts) {
    auto exists = co_await admin.broker.topic_exists(part);
    if (!exists) co_return exists.status();
    if (!*exists) co_return co_await why_not_found(admin, part);
    Status unloaded = co_await admin.broker.unload_topic(part);
    if (!unloaded) co_return unloaded;
  }
  co_return no_content();
}

Answer terminate_one(std::shared_ptr<Topic> topic) {
  if (topic->managed_ledger() == nullptr) {
    co_return Status::NotAllowed("Termination of a non-persistent topic is not allowed");
  }
  auto last = co_await topic->terminate();
  if (!last) co_return last.status();
  co_return json_answer(message_id_json(*last));
}

Answer terminate(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count > 0 && !name->is_partition()) {
    co_return Status::NotAllowed("Termination of a partitioned topic is not allowed");
  }
  co_return co_await with_topic(admin, *name, terminate_one);
}

Answer terminate_partitions(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count == 0) {
    co_return Status::NotAllowed(
        "Termination of a non-partitioned topic is not allowed using partitioned-terminate, "
        "please use terminate commands");
  }
  std::string body = "{";
  for (std::int32_t i = 0; i < *count; ++i) {
    auto answer = co_await with_topic(admin, name->partition(i), terminate_one);
    if (!answer) co_return answer.status();
    body += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", i, answer->body);
  }
  co_return json_text(body + '}');
}

Answer truncate(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  co_return co_await with_parts(admin, *name, [](std::shared_ptr<Topic> topic) -> Answer {
    if (topic->managed_ledger() == nullptr) {
      co_return Status::PreconditionFailed(
          "truncate topic is not allowed on a non-persistent topic");
    }
    Status truncated = co_await topic->managed_ledger()->truncate();
    if (!truncated) co_return truncated;
    co_return no_content();
  });
}

Answer trim(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto answer = co_await with_parts(admin, *name, [](std::shared_ptr<Topic> topic) -> Answer {
    if (topic->managed_ledger() == nullptr) {
      co_return Status::NotAllowed("Trim on a non-persistent topic is not allowed");
    }
    Status trimmed = co_await topic->managed_ledger()->trim();
    if (!trimmed) co_return trimmed;
    co_return no_content();
  });
  if (!answer || answer->status != 204) co_return answer;
  co_return ok_empty();
}

// Offload is not built: the status of a run that never was is true all the same.
Answer never_run(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  co_return co_await with_topic(admin, *name, [](std::shared_ptr<Topic>) -> Answer {
    co_return json_text(R"({"status":"NOT_RUN","lastError":""})");
  });
}

#define GM_NS "/admin/v2/:domain/{tenant}/{namespace}"
#define GM_TOPIC GM_NS "/{topic}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_NS, "Topics of a namespace", list},
    {HttpMethod::Get, "/admin/persistent/{tenant}/{cluster}/{namespace}",
     "Topics of a namespace with a name of the old form", list},
    {HttpMethod::Get, "/admin/non-persistent/{tenant}/{cluster}/{namespace}",
     "Topics of a namespace with a name of the old form", list},
    {HttpMethod::Get, GM_NS "/partitioned", "Partitioned topics of a namespace", list_partitioned},
    {HttpMethod::Get, "/admin/v2/non-persistent/{tenant}/{namespace}/{bundle}",
     "Non-persistent topics of a bundle", list_in_bundle},
    {HttpMethod::Put, GM_TOPIC, "Create a topic that is not partitioned", create},
    {HttpMethod::Delete, GM_TOPIC, "Delete a topic", remove},
    {HttpMethod::Put, GM_TOPIC "/partitions", "Create a partitioned topic", create_partitioned},
    {HttpMethod::Post, GM_TOPIC "/partitions", "Add partitions to a topic", update_partitioned},
    {HttpMethod::Get, GM_TOPIC "/partitions", "How many partitions a topic has", get_partitioned},
    {HttpMethod::Delete, GM_TOPIC "/partitions", "Delete a partitioned topic", remove_partitioned},
    {HttpMethod::Post, GM_TOPIC "/createMissedPartitions", "Create the partitions that are missing",
     create_missed},
    {HttpMethod::Get, GM_TOPIC "/properties", "Properties of a topic", get_properties},
    {HttpMethod::Put, GM_TOPIC "/properties", "Set properties of a topic", set_properties},
    {HttpMethod::Delete, GM_TOPIC "/properties", "Remove a property of a topic", remove_property},
    {HttpMethod::Put, GM_TOPIC "/unload", "Close a topic; it opens again when it is needed",
     unload},
    {HttpMethod::Post, GM_TOPIC "/terminate", "End a topic: no more messages", terminate},
    {HttpMethod::Post, GM_TOPIC "/terminate/partitions", "End all partitions of a topic",
     terminate_partitions},
    {HttpMethod::Delete, GM_TOPIC "/truncate", "Drop all messages of a topic", truncate},
    {HttpMethod::Post, GM_TOPIC "/trim", "Drop what is consumed and not retained", trim},
    {HttpMethod::Get, GM_TOPIC "/offload", "State of the topic's offload", never_run},
};

}  // namespace

void add_topic_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
