// Subscriptions: list, create, delete, move, expire, properties.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <set>

#include "server/admin/admin.h"
#include "server/admin/message_id_json.h"

namespace geminga {

namespace json = boost::json;

namespace {

Status no_subscription(const std::string& subscription, const TopicName& topic) {
  return Status::SubscriptionNotFound(
      fmt::format("Subscription {} not found for topic {}", subscription, topic.full()));
}

using SubscriptionWork =
    std::function<Answer(std::shared_ptr<Topic>, std::shared_ptr<Subscription>)>;

TopicWork on_subscription(std::string subscription, TopicName asked, SubscriptionWork work) {
  return [subscription, asked, work](std::shared_ptr<Topic> topic) -> Answer {
    auto found = topic->subscription(subscription);
    if (!found) co_return no_subscription(subscription, asked);
    co_return co_await work(topic, found);
  };
}

// Does `work` to {subscription} on the topic or, one after the other, on all its partitions.
Answer with_subscription(Admin& admin, HttpRequest& request, SubscriptionWork work) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  co_return co_await with_parts(
      admin, *name, on_subscription(request.param("subscription"), *name, std::move(work)));
}

// The same where a partitioned topic is refused with `refusal`.
Answer with_plain_subscription(Admin& admin, HttpRequest& request, std::string refusal,
                               SubscriptionWork work) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto count = co_await admin.broker.partition_count(*name);
  if (!count) co_return count.status();
  if (*count > 0 && !name->is_partition()) co_return Status::NotAllowed(refusal);
  co_return co_await with_topic(
      admin, *name, on_subscription(request.param("subscription"), *name, std::move(work)));
}

Answer list(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto parts = co_await parts_of(admin, *name);
  if (!parts) co_return parts.status();
  std::set<std::string> names;
  for (const TopicName& part : *parts) {
    auto answer =
        co_await with_topic(admin, part, [&names](std::shared_ptr<Topic> topic) -> Answer {
          for (std::string& subscription : topic->subscription_names())
            names.insert(std::move(subscription));
          co_return no_content();
        });
    if (!answer && !(parts->size() > 1 && answer.is(ErrorCode::NotFound)))
      co_return answer.status();
  }
  co_return text_list({names.begin(), names.end()});
}

struct CreateBody {
  Position start = Position::latest();
  std::map<std::string, std::string> properties;
};

// Nothing, "earliest", "latest", or a message id with properties.
Result<CreateBody> create_body(const json::value& body) {
  CreateBody out;
  if (body.is_null()) return out;
  if (body.is_string()) {
    const std::string_view text(body.get_string());
    if (text == "earliest") {
      out.start = Position::earliest();
    } else if (text != "latest") {
      return Status::Protocol("a position is \"earliest\", \"latest\" or a message id");
    }
    return out;
  }
  GM_ASSIGN_OR_RETURN(const MessageIdBody id, read_message_id(body));
  out.start = id.position;
  if (id.properties.is_object()) {
    for (const auto& member : id.properties.get_object()) {
      if (!member.value().is_string()) return Status::Protocol("properties are an object of texts");
      out.properties[std::string(member.key())] = std::string(member.value().get_string());
    }
  }
  return out;
}

Answer create(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  auto wanted = create_body(body.value);
  if (!wanted) co_return refusal_of(wanted.status());
  Status found = co_await require_namespace(admin, name->namespace_name());
  if (!found) co_return found;
  auto parts = co_await parts_of(admin, *name);
  if (!parts) co_return parts.status();
  // A subscription may bring its topic into being where clients may.
  if (parts->size() == 1 && !parts->front().is_partition()) {
    auto exists = co_await admin.broker.topic_exists(*name);
    if (!exists) co_return exists.status();
    if (!*exists) {
      auto count = co_await admin.broker.partition_metadata(*name, true);
      if (count.is(ErrorCode::TopicNotFound)) co_return topic_not_found(*name);
      if (!count) co_return count.status();
      if (*count == 0) {
        Status created = co_await admin.broker.create_topic(*name, {});
        if (!created && !created.is(ErrorCode::AlreadyExists) && !created.is(ErrorCode::Conflict)) {
          co_return created;
        }
      } else {
        parts = co_await parts_of(admin, *name);
        if (!parts) co_return parts.status();
      }
    }
  }
  const std::string subscription = request.param("subscription");
  bool any = false;
  for (const TopicName& part : *parts) {
    const CreateBody& make = *wanted;
    auto answer = co_await with_topic(
        admin, part, [&subscription, &make](std::shared_ptr<Topic> topic) -> Answer {
          Status created =
              co_await topic->create_subscription(subscription, make.start, make.properties);
          if (!created) co_return created;
          co_return no_content();
        });
    if (answer.is(ErrorCode::AlreadyExists)) continue;
    if (!answer) co_return answer;
    any = true;
  }
  if (!any) co_return Status::AlreadyExists("Subscription already exists for topic");
  co_return no_content();
}

Answer remove(Admin& admin, HttpRequest& request) {
  const bool force = request.query_flag("force", false);
  auto work = [force](std::shared_ptr<Topic> topic,
                      std::shared_ptr<Subscription> subscription) -> Answer {
    Status deleted = co_await topic->delete_subscription(subscription->name(), force);
    if (deleted.is(ErrorCode::PreconditionFailed) || deleted.is(ErrorCode::ConsumerBusy)) {
      co_return Status::PreconditionFailed("Subscription has active connected consumers");
    }
    if (!deleted) co_return deleted;
    co_return no_content();
  };
  co_return co_await with_subscription(admin, request, std::move(work));
}

std::optional<std::int64_t> path_number(const HttpRequest& request, std::string_view name) {
  HttpRequest reader;
  reader.query.emplace_back("n", request.param(name));
  return reader.query_number("n");
}

Answer skip(Admin& admin, HttpRequest& request) {
  const auto count = path_number(request, "count");
  if (!count) co_return server_page(request, 404);
  if (*count < 0)
    co_return Status::PreconditionFailed("the number of messages to skip is 0 or more");
  auto work = [count](std::shared_ptr<Topic>,
                      std::shared_ptr<Subscription> subscription) -> Answer {
    Status skipped = co_await subscription->skip(*count);
    if (!skipped) co_return skipped;
    co_return no_content();
  };
  co_return co_await with_plain_subscription(
      admin, request, "Skip messages on a partitioned topic is not allowed", std::move(work));
}

Answer skip_all(Admin& admin, HttpRequest& request) {
  co_return co_await with_subscription(
      admin, request,
      [](std::shared_ptr<Topic>, std::shared_ptr<Subscription> subscription) -> Answer {
        Status skipped = co_await subscription->skip_all();
        if (!skipped) co_return skipped;
        co_return no_content();
      });
}

Answer reset_to_time(Admin& admin, HttpRequest& request) {
  const auto time = path_number(request, "timestamp");
  if (!time) co_return server_page(request, 404);
  auto work = [time](std::shared_ptr<Topic>, std::shared_ptr<Subscription> subscription) -> Answer {
    Status moved = co_await subscription->seek_to_time(*time);
    if (!moved) co_return moved;
    co_return no_content();
  };
  co_return co_await with_subscription(admin, request, std::move(work));
}

Answer reset_to_id(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto id = read_message_id(body.value);
  if (!id) co_return refusal_of(id.status());
  const MessageIdBody target = *id;
  auto work = [target](std::shared_ptr<Topic> topic,
                       std::shared_ptr<Subscription> subscription) -> Answer {
    Position position = target.position;
    ManagedLedger* log = topic->managed_ledger();
    const bool special = position == Position::earliest() || position == Position::latest();
    if (target.excluded && !special && log != nullptr) position = log->next(position);
    Status moved = co_await subscription->seek(position, AckSet());
    if (!moved) co_return moved;
    co_return no_content();
  };
  co_return co_await with_plain_subscription(
      admin, request, "Reset-cursor at position is not allowed for partitioned-topic",
      std::move(work));
}

// A subscription without a backlog has nothing to expire, which is an answer of its own: `refused`.
// The other subscriptions and partitions of the request are served all the same.
Task<Status> expire_messages(std::shared_ptr<Topic> topic,
                             std::shared_ptr<Subscription> subscription, std::int64_t seconds,
                             std::shared_ptr<Status> refused) {
  const ManagedCursor* cursor = subscription->cursor();
  if (cursor == nullptr || cursor->backlog_entries() > 0)
    co_return co_await subscription->expire(seconds);
  if (refused->is_ok()) {
    *refused = Status::Conflict(fmt::format(
        "Expire message by timestamp not issued on topic {} for subscription {} due to ongoing "
        "message expiration not finished or subscription almost catch  up. If it's performed on a "
        "partitioned topic operation might succeeded on other partitions, please check stats of "
        "individual partition.",
        topic->name().full(), subscription->name()));
  }
  co_return Status::ok();
}

Answer expire(Admin& admin, HttpRequest& request) {
  const auto seconds = path_number(request, "seconds");
  if (!seconds || *seconds < 0) co_return server_page(request, 404);
  auto refused = std::make_shared<Status>();
  auto work = [seconds, refused](std::shared_ptr<Topic> topic,
                                 std::shared_ptr<Subscription> subscription) -> Answer {
    Status expired = co_await expire_messages(topic, subscription, *seconds, refused);
    if (!expired) co_return expired;
    co_return no_content();
  };
  auto answer = co_await with_subscription(admin, request, std::move(work));
  if (answer && !refused->is_ok()) co_return *refused;
  co_return answer;
}

Answer expire_all(Admin& admin, HttpRequest& request) {
  const auto seconds = path_number(request, "seconds");
  if (!seconds || *seconds < 0) co_return server_page(request, 404);
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto refused = std::make_shared<Status>();
  auto work = [seconds, refused](std::shared_ptr<Topic> topic) -> Answer {
    for (const std::string& subscription : topic->subscription_names()) {
      auto found = topic->subscription(subscription);
      if (!found) continue;
      Status expired = co_await expire_messages(topic, std::move(found), *seconds, refused);
      if (!expired) co_return expired;
    }
    co_return no_content();
  };
  auto answer = co_await with_parts(admin, *name, std::move(work));
  if (answer && !refused->is_ok()) co_return *refused;
  co_return answer;
}

Answer expire_to_id(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto id = read_message_id(body.value);
  if (!id) co_return refusal_of(id.status());
  const MessageIdBody target = *id;
  auto work = [target](std::shared_ptr<Topic> topic,
                       std::shared_ptr<Subscription> subscription) -> Answer {
    ManagedLedger* log = topic->managed_ledger();
    ManagedCursor* cursor = subscription->cursor();
    if (log == nullptr || cursor == nullptr) {
      co_return Status::NotAllowed("Expire messages on a non-persistent topic is not allowed");
    }
    cursor->ack_cumulative(target.excluded ? log->previous(target.position) : target.position);
    Status stored = co_await cursor->flush();
    if (!stored) co_return stored;
    co_return no_content();
  };
  co_return co_await with_plain_subscription(
      admin, request, "Expire message at position is not supported for partitioned-topic",
      std::move(work));
}

Answer get_properties(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto parts = co_await parts_of(admin, *name);
  if (!parts) co_return parts.status();
  SubscriptionWork read = [](std::shared_ptr<Topic>,
                             std::shared_ptr<Subscription> subscription) -> Answer {
    json::object out;
    if (const ManagedCursor* cursor = subscription->cursor()) {
      for (const auto& [key, value] : cursor->properties()) out[key] = value;
    }
    co_return json_answer(out);
  };
  // All partitions have the same.
  co_return co_await with_topic(
      admin, parts->front(),
      on_subscription(request.param("subscription"), *name, std::move(read)));
}

Answer set_properties(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  std::map<std::string, std::string> properties;
  if (body.value.is_object()) {
    for (const auto& member : body.value.get_object()) {
      if (!member.value().is_string())
        co_return refusal_of(Status::Protocol("properties are an object of texts"));
      properties[std::string(member.key())] = std::string(member.value().get_string());
    }
  }
  auto work = [properties](std::shared_ptr<Topic>,
                           std::shared_ptr<Subscription> subscription) -> Answer {
    ManagedCursor* cursor = subscription->cursor();
    if (cursor == nullptr)
      co_return Status::NotAllowed("a non-persistent subscription has no properties");
    Status set = co_await cursor->set_properties(properties);
    if (!set) co_return set;
    co_return no_content();
  };
  co_return co_await with_subscription(admin, request, std::move(work));
}

Answer replicated(Admin& admin, HttpRequest& request) {
  auto name = topic_of(request);
  if (!name) co_return name.status();
  auto parts = co_await parts_of(admin, *name);
  if (!parts) co_return parts.status();
  json::object out;
  for (const TopicName& part : *parts) {
    SubscriptionWork read = [&out, &part](std::shared_ptr<Topic>,
                                          std::shared_ptr<Subscription> subscription) -> Answer {
      out[part.full()] = subscription->stats().replicated;
      co_return no_content();
    };
    auto answer = co_await with_topic(
        admin, part, on_subscription(request.param("subscription"), *name, std::move(read)));
    if (!answer) co_return answer;
  }
  co_return json_answer(out);
}

Answer set_replicated(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_bool()) co_return refusal_of(Status::Protocol("the body is true or false"));
  const bool on = body.value.get_bool();
  SubscriptionWork work = [on](std::shared_ptr<Topic>,
                               std::shared_ptr<Subscription> subscription) -> Answer {
    if (subscription->cursor() == nullptr)
      co_return Status::NotAllowed("a non-persistent subscription cannot be replicated");
    subscription->set_replicated(on);
    Status kept = co_await subscription->cursor()->flush();
    if (!kept) co_return kept;
    co_return no_content();
  };
  co_return co_await with_subscription(admin, request, std::move(work));
}

json::object explanation_json(const std::string& topic, const std::string& subscription,
                              const Explanation& why) {
  json::object out;
  out["topic"] = topic;
  out["subscription"] = subscription;
  if (!why.type.empty()) out["type"] = why.type;
  out["reason"] = code_of(why.reason);
  out["explanation"] = to_string(why.reason);
  if (!advice_for(why.reason).empty()) out["advice"] = advice_for(why.reason);
  out["backlogEntries"] = why.backlog_entries;
  out["backlogMessages"] = why.backlog_messages;
  out["markDeletePosition"] = why.mark_delete.to_string();
  out["readPosition"] = why.read_position.to_string();
  out["lastConfirmedEntry"] = why.last_confirmed.to_string();
  out["delayedMessages"] = why.delayed;
  out["entriesToBeSentAgain"] = why.to_be_sent_again;
  out["unackedMessages"] = why.unacked;
  out["unackedMessagesLimit"] = why.unacked_limit;
  out["unackedMessagesLimitPerConsumer"] = why.unacked_limit_of_consumer;
  json::array consumers;
  for (const auto& of : why.consumers) {
    consumers.push_back({{"consumerName", of.name},
                         {"reason", code_of(of.reason)},
                         {"explanation", to_string(of.reason)},
                         {"availablePermits", of.permits},
                         {"unackedMessages", of.unacked},
                         {"entriesWaiting", of.parked}});
  }
  out["consumers"] = std::move(consumers);
  json::array draining;
  for (const auto& key : why.draining) {
    draining.push_back({{"hash", key.hash},
                        {"heldBy", key.held_by},
                        {"unackedEntries", key.unacked},
                        {"waitingEntries", key.waiting}});
  }
  out["drainingHashes"] = std::move(draining);
  return out;
}

// Not in Pulsar: why the subscription delivers nothing at this moment.
Answer explain(Admin& admin, HttpRequest& request) {
  SubscriptionWork work = [](std::shared_ptr<Topic> topic,
                             std::shared_ptr<Subscription> subscription) -> Answer {
    const auto why = subscription->explain();
    if (!why) {
      co_return Status::NotAllowed(
          "a non-persistent topic keeps nothing: what nobody takes at once is dropped; see "
          "msgDropRate in its stats");
    }
    co_return json_answer(explanation_json(topic->name().full(), subscription->name(), *why));
  };
  std::string refusal =
      "ask for one partition, for example " + request.param("topic") + "-partition-0";
  co_return co_await with_plain_subscription(admin, request, std::move(refusal), std::move(work));
}

#define GM_TOPIC "/admin/v2/:domain/{tenant}/{namespace}/{topic}"
#define GM_SUB GM_TOPIC "/subscription/{subscription}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_TOPIC "/subscriptions", "Subscriptions of a topic", list},
    {HttpMethod::Put, GM_SUB, "Create a subscription at a position", create},
    {HttpMethod::Delete, GM_SUB, "Delete a subscription", remove},
    {HttpMethod::Post, GM_SUB "/skip/{count}", "Skip messages", skip},
    {HttpMethod::Post, GM_SUB "/skip_all", "Skip all messages", skip_all},
    {HttpMethod::Post, GM_SUB "/resetcursor/{timestamp}", "Move a subscription to a time",
     reset_to_time},
    {HttpMethod::Post, GM_SUB "/resetcursor", "Move a subscription to a message", reset_to_id},
    {HttpMethod::Post, GM_SUB "/expireMessages/{seconds}",
     "Expire messages older than so many seconds", expire},
    {HttpMethod::Post, GM_SUB "/expireMessages", "Expire messages up to one", expire_to_id},
    {HttpMethod::Post, GM_TOPIC "/all_subscription/expireMessages/{seconds}",
     "Expire messages older than so many seconds for all subscriptions", expire_all},
    {HttpMethod::Get, GM_SUB "/explain", "Why a subscription delivers nothing now", explain},
    {HttpMethod::Get, GM_SUB "/properties", "Properties of a subscription", get_properties},
    {HttpMethod::Put, GM_SUB "/properties", "Replace the properties of a subscription",
     set_properties},
    {HttpMethod::Get, GM_SUB "/replicatedSubscriptionStatus",
     "Whether a subscription is replicated", replicated},
    {HttpMethod::Post, GM_SUB "/replicatedSubscriptionStatus",
     "Say whether a subscription is to be replicated", set_replicated},
};

}  // namespace

void add_subscription_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
