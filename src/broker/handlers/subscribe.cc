// SUBSCRIBE and CLOSE_CONSUMER (wire-protocol §7).
#include <fmt/format.h>

#include "base/config.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/call_on.h"
#include "broker/handlers/handlers.h"
#include "broker/handlers/schema_access.h"
#include "broker/handlers/topic_access.h"
#include "broker/topic_compaction.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;
using pulsar::proto::CommandSubscribe;

// Names that the broker uses for cursors of its own.
constexpr std::string_view kReplicatorPrefix = "pulsar.repl";
constexpr std::string_view kDeduplicationCursor = "pulsar.dedup";

SubscriptionType type_of(CommandSubscribe::SubType type) {
  switch (type) {
    case CommandSubscribe::Exclusive: return SubscriptionType::Exclusive;
    case CommandSubscribe::Shared: return SubscriptionType::Shared;
    case CommandSubscribe::Failover: return SubscriptionType::Failover;
    case CommandSubscribe::Key_Shared: return SubscriptionType::KeyShared;
  }
  return SubscriptionType::Exclusive;
}

SubscribeRequest request_of(const CommandSubscribe& command) {
  SubscribeRequest request;
  request.consumer_id = command.consumer_id();
  request.subscription = command.subscription();
  request.type = type_of(command.subtype());
  request.consumer_name = command.consumer_name();
  request.priority_level = command.priority_level();
  request.durable = command.durable();
  if (command.has_start_message_id()) {
    const auto& id = command.start_message_id();
    request.start_message_id =
        Position{static_cast<std::int64_t>(id.ledgerid()), static_cast<std::int64_t>(id.entryid())};
  }
  request.start_message_rollback_seconds =
      static_cast<std::int64_t>(command.start_message_rollback_duration_sec());
  request.initial_earliest = command.initialposition() == CommandSubscribe::Earliest;
  request.read_compacted = command.read_compacted();
  request.replicate_state = command.replicate_subscription_state();
  if (command.has_keysharedmeta()) {
    KeySharedOptions options;
    const auto& meta = command.keysharedmeta();
    options.mode = meta.keysharedmode() == pulsar::proto::STICKY ? KeySharedMode::Sticky
                                                                 : KeySharedMode::AutoSplit;
    options.allow_out_of_order = meta.allowoutoforderdelivery();
    for (const auto& range : meta.hashranges())
      options.ranges.push_back({range.start(), range.end()});
    request.key_shared = std::move(options);
  }
  for (const auto& pair : command.metadata()) request.metadata[pair.key()] = pair.value();
  for (const auto& pair : command.subscription_properties()) {
    request.subscription_properties[pair.key()] = pair.value();
  }
  if (command.has_consumer_epoch())
    request.consumer_epoch = static_cast<std::int64_t>(command.consumer_epoch());
  return request;
}

// What can be refused without looking at the topic.
Status check(const SubscribeRequest& request, std::int64_t max_metadata) {
  std::size_t metadata = 0;
  for (const auto& [key, value] : request.metadata) metadata += key.size() + value.size();
  if (static_cast<std::int64_t>(metadata) > max_metadata) {
    return Status::Metadata(
        fmt::format("The metadata of the consumer has {} bytes, at most {} are allowed", metadata,
                    max_metadata));
  }
  return Status::ok();
}

// Checked once the topic is there, as Pulsar does. ProducerBusy is what its NamingException
// becomes.
Status check_name(const SubscribeRequest& request) {
  if (request.read_compacted &&
      (request.type == SubscriptionType::Shared || request.type == SubscriptionType::KeyShared)) {
    return Status::NotAllowed("readCompacted only allowed on failover or exclusive subscriptions");
  }
  if (request.subscription.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Status::ProducerBusy("Empty subscription name");
  }
  if (request.subscription.starts_with(kReplicatorPrefix) ||
      request.subscription == kDeduplicationCursor) {
    return Status::ProducerBusy("Subscription with reserved subscription name attempted");
  }
  return Status::ok();
}

struct Created {
  std::shared_ptr<Topic> topic;
  Topic::Subscribed subscribed;
};

// On the topic's shard.
Task<Result<Created>> create(Broker* broker, TopicName name, SubscribeRequest request,
                             bool may_create, std::optional<SchemaData> schema) {
  Created created;
  Result<std::shared_ptr<Topic>> topic = co_await open_topic_for_client(*broker, name, may_create);
  if (!topic) co_return topic.status();
  created.topic = std::move(*topic);
  if (const Status checked = check_name(request); !checked) co_return checked;
  if (schema) {
    const bool idle = created.topic->producer_count() == 0 &&
                      (created.topic->managed_ledger() == nullptr ||
                       created.topic->managed_ledger()->total_entries() == 0);
    if (const Status added = co_await put_consumer_schema(*broker, name, std::move(*schema), idle);
        !added) {
      co_return added;
    }
  }
  Result<Topic::Subscribed> subscribed = co_await created.topic->subscribe(std::move(request));
  if (!subscribed) co_return subscribed.status();
  created.subscribed = std::move(*subscribed);
  co_return created;
}

Task<void> discard(Shard* shard, std::shared_ptr<Subscription> subscription,
                   std::shared_ptr<Consumer> consumer, std::shared_ptr<Topic> topic) {
  auto work = [subscription = std::move(subscription), consumer = std::move(consumer),
               topic = std::move(topic)]() mutable -> Task<bool> {
    subscription->remove_consumer(consumer);
    consumer.reset();
    subscription.reset();
    topic.reset();
    co_return true;
  };
  co_await call_on(*shard, std::move(work));
}

}  // namespace

Task<void> handle_subscribe(std::shared_ptr<Session> session, BaseCommand command) {
  const CommandSubscribe& subscribe = command.subscribe();
  const std::uint64_t id = subscribe.consumer_id();
  const std::uint64_t request_id = subscribe.request_id();
  Broker& broker = session->broker();
  const Result<TopicName> name = parse_client_topic(subscribe.topic());
  if (!name) co_return session->reply_error(request_id, name.status());
  SubscribeRequest request = request_of(subscribe);
  if (const Status checked = check(request, broker.config().max_consumer_metadata_size); !checked)
    co_return session->reply_error(request_id, checked);
  if (const auto at = session->consumers().find(id); at != session->consumers().end()) {
    if (at->second.ready) {
      session->reply_success(request_id);
    } else {
      session->reply_error(
          request_id, Status::ServiceNotReady("Consumer is already present on the connection"));
    }
    co_return;
  }
  Result<std::optional<SchemaData>> schema =
      schema_of_client(subscribe.has_schema() ? &subscribe.schema() : nullptr);
  if (!schema) co_return session->reply_error(request_id, schema.status());

  Shard& shard = broker.shard_of(*name);
  request.outbox = session->outbox_on(shard);
  const std::uint64_t generation = session->next_generation();
  session->consumers()[id].generation = generation;
  session->forget_sought(id);

  auto work = [&broker, name = *name, request = std::move(request),
               may_create = subscribe.force_topic_creation(),
               schema = std::move(*schema)]() mutable {
    return create(&broker, std::move(name), std::move(request), may_create, std::move(schema));
  };
  Result<Created> created = co_await call_on(shard, std::move(work));

  Session::ConsumerSlot* slot = session->consumer(id, generation);
  if (!created) {
    if (slot == nullptr) co_return;
    session->consumers().erase(id);
    GM_LOG_INFO("{}: no consumer on {} for {}: {}", name->full(), subscribe.subscription(),
                session->peer().address, created.status().to_string());
    co_return session->reply_error(request_id, created.status());
  }
  if (slot == nullptr || slot->closed_by_broker) {
    if (slot != nullptr) {
      session->consumers().erase(id);
      session->reply_error(request_id,
                           Status::ServiceNotReady("Subscription is temporarily unavailable"));
    }
    co_return co_await discard(&shard, std::move(created->subscribed.subscription),
                               std::move(created->subscribed.consumer), std::move(created->topic));
  }
  slot->ready = true;
  slot->topic = std::move(created->topic);
  slot->subscription = std::move(created->subscribed.subscription);
  slot->consumer = std::move(created->subscribed.consumer);
  slot->outbox = session->outbox_on(shard);
  slot->shard = &shard;
  session->reply_success(request_id);
}

Task<void> handle_close_consumer(std::shared_ptr<Session> session, BaseCommand command) {
  const std::uint64_t id = command.close_consumer().consumer_id();
  session->forget_sought(id);
  const auto at = session->consumers().find(id);
  if (at != session->consumers().end()) {
    const bool ready = at->second.ready;
    Session::ConsumerSlot slot = std::move(at->second);
    session->consumers().erase(at);
    if (ready) {
      co_await discard(slot.shard, std::move(slot.subscription), std::move(slot.consumer),
                       std::move(slot.topic));
    }
  }
  session->reply_success(command.close_consumer().request_id());
}

}  // namespace geminga
