// PRODUCER and CLOSE_PRODUCER (wire-protocol §5.1 to §5.7).
#include "broker/producer.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/call_on.h"
#include "broker/handlers/handlers.h"
#include "broker/handlers/schema_access.h"
#include "broker/handlers/topic_access.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;

struct Created {
  std::shared_ptr<Topic> topic;
  ProducerGrant grant;
  std::string schema_version;
};

ProducerRequest request_of(const pulsar::proto::CommandProducer& command) {
  ProducerRequest request;
  request.producer_id = command.producer_id();
  request.request_id = command.request_id();
  request.name = command.producer_name();
  request.user_provided_name = command.user_provided_producer_name();
  request.epoch = command.epoch();
  request.access_mode = static_cast<ProducerAccessMode>(command.producer_access_mode());
  if (command.has_topic_epoch()) request.topic_epoch = command.topic_epoch();
  request.encrypted = command.encrypted();
  for (const auto& pair : command.metadata()) request.metadata[pair.key()] = pair.value();
  request.initial_subscription = command.initial_subscription_name();
  return request;
}

// On the topic's shard.
Task<Result<Created>> create(Broker* broker, TopicName name, ProducerRequest request,
                             std::optional<SchemaData> schema) {
  Created created;
  Result<std::shared_ptr<Topic>> topic = co_await open_topic_for_client(*broker, name, true);
  if (!topic) co_return topic.status();
  created.topic = std::move(*topic);
  if (schema) {
    Result<std::string> version = co_await put_schema(*broker, name, std::move(*schema));
    if (!version) co_return version.status();
    created.schema_version = std::move(*version);
    request.schema_version = created.schema_version;
  } else {
    GM_CO_RETURN_IF_ERROR(co_await admit_without_schema(*broker, name));
  }
  Result<ProducerGrant> grant = co_await created.topic->add_producer(std::move(request));
  if (!grant) co_return grant.status();
  created.grant = std::move(*grant);
  co_return created;
}

// The client is gone, or has given up: nobody wants what was created.
Task<void> discard(Shard* shard, Created created) {
  auto owned = std::make_shared<Created>(std::move(created));
  auto work = [owned = std::move(owned)]() mutable -> Task<bool> {
    co_await owned->topic->remove_producer(owned->grant.producer);
    owned.reset();
    co_return true;
  };
  co_await call_on(*shard, std::move(work));
}

}  // namespace

Task<void> handle_producer(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& producer = command.producer();
  const std::uint64_t id = producer.producer_id();
  const std::uint64_t request_id = producer.request_id();
  Broker& broker = session->broker();
  const Result<TopicName> name = parse_client_topic(producer.topic());
  if (!name) co_return session->reply_error(request_id, name.status());
  if (const auto at = session->producers().find(id); at != session->producers().end()) {
    if (!at->second.ready) {
      session->reply_error(
          request_id, Status::ServiceNotReady("Producer is already present on the connection"));
    } else {
      ProducerGrant again;
      session->reply(
          producer_success(request_id, at->second.name, again, at->second.schema_version));
    }
    co_return;
  }
  Result<std::optional<SchemaData>> schema =
      schema_of_client(producer.has_schema() ? &producer.schema() : nullptr);
  if (!schema) co_return session->reply_error(request_id, schema.status());

  Shard& shard = broker.shard_of(*name);
  ProducerRequest request = request_of(producer);
  if (request.name.empty()) request.name = broker.next_producer_name();
  request.outbox = session->outbox_on(shard);
  const std::string producer_name = request.name;
  const std::uint64_t generation = session->next_generation();
  session->producers()[id].generation = generation;

  auto work = [&broker, name = *name, request = std::move(request),
               schema = std::move(*schema)]() mutable {
    return create(&broker, std::move(name), std::move(request), std::move(schema));
  };
  Result<Created> created = co_await call_on(shard, std::move(work));

  Session::ProducerSlot* slot = session->producer(id, generation);
  if (!created) {
    // Closed by the client meanwhile: it waits for no answer any more.
    if (slot == nullptr) co_return;
    session->producers().erase(id);
    GM_LOG_INFO("{}: no producer for {}: {}", name->full(), session->peer().address,
                created.status().to_string());
    co_return session->reply_error(request_id, created.status());
  }
  if (slot == nullptr) co_return co_await discard(&shard, std::move(*created));
  if (slot->closed_by_broker) {
    session->producers().erase(id);
    session->reply_error(request_id, Status::ServiceNotReady("Topic is temporarily unavailable"));
    co_return co_await discard(&shard, std::move(*created));
  }
  slot->ready = true;
  slot->name = producer_name;
  slot->schema_version = created->schema_version;
  slot->topic = std::move(created->topic);
  slot->producer = created->grant.producer;
  slot->outbox = session->outbox_on(shard);
  slot->shard = &shard;
  session->reply(
      producer_success(request_id, producer_name, created->grant, created->schema_version));
  if (!shard.is_current()) {
    // The last reference to the producer must not die here.
    shard.post([producer = std::move(created->grant.producer)] {});
  }
}

Task<void> handle_close_producer(std::shared_ptr<Session> session, BaseCommand command) {
  const std::uint64_t id = command.close_producer().producer_id();
  const auto at = session->producers().find(id);
  if (at != session->producers().end()) {
    const bool ready = at->second.ready;
    Session::ProducerSlot slot = std::move(at->second);
    session->producers().erase(at);
    if (ready) {
      Shard* shard = slot.shard;
      auto owned = std::make_shared<Session::ProducerSlot>(std::move(slot));
      auto work = [owned = std::move(owned)]() mutable -> Task<bool> {
        co_await owned->topic->remove_producer(owned->producer);
        owned.reset();
        co_return true;
      };
      co_await call_on(*shard, std::move(work));
    }
  }
  session->reply_success(command.close_producer().request_id());
}

}  // namespace geminga
