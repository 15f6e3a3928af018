#include "broker/producer.h"

#include <fmt/chrono.h>

#include "PulsarApi.pb.h"
#include "base/clock.h"
#include "base/iso_time.h"

namespace geminga {

Producer::Producer(ProducerRequest request)
    : request_(std::move(request)), connected_ms_(now_ms()) {}

bool Producer::is_successor_of(const Producer& other) const {
  return name() == other.name() && id() == other.id() &&
         request_.outbox->peer().connection_id == other.request_.outbox->peer().connection_id &&
         other.epoch() < epoch();
}

Task<void> Producer::drained() {
  if (in_flight_ == 0) co_return;
  if (!drained_) drained_ = std::make_shared<Event>();
  auto event = drained_;
  co_await event->wait();
}

void Producer::count(std::uint32_t messages, std::size_t bytes, bool chunk, std::int64_t now_ns) {
  messages_.add(messages, now_ns);
  bytes_.add(static_cast<std::int64_t>(bytes), now_ns);
  if (chunk) chunks_.add(1, now_ns);
}

ProducerNumbers Producer::numbers(std::int64_t now_ns) const {
  ProducerNumbers stats;
  stats.producer_id = id();
  stats.msg_rate_in = messages_.per_second(now_ns);
  stats.msg_throughput_in = bytes_.per_second(now_ns);
  stats.average_msg_size = stats.msg_rate_in > 0 ? stats.msg_throughput_in / stats.msg_rate_in : 0;
  stats.chunked_message_rate = chunks_.per_second(now_ns);
  return stats;
}

ProducerStats Producer::stats(std::int64_t now_ns) const {
  ProducerStats stats;
  static_cast<ProducerNumbers&>(stats) = numbers(now_ns);
  stats.name = name();
  stats.address = request_.outbox->peer().address;
  stats.client_version = request_.outbox->peer().client_version;
  stats.connected_since = iso_time(connected_ms_);
  stats.access_mode = access_mode();
  stats.metadata = request_.metadata;
  return stats;
}

pulsar::proto::BaseCommand producer_success(std::uint64_t request_id, const std::string& name,
                                            const ProducerGrant& grant,
                                            const std::string& schema_version) {
  pulsar::proto::BaseCommand command;
  command.set_type(pulsar::proto::BaseCommand::PRODUCER_SUCCESS);
  auto& success = *command.mutable_producer_success();
  success.set_request_id(request_id);
  success.set_producer_name(name);
  success.set_last_sequence_id(grant.last_sequence_id);
  success.set_schema_version(schema_version);  // always there: Java reads it in any case
  if (grant.topic_epoch) success.set_topic_epoch(*grant.topic_epoch);
  success.set_producer_ready(grant.ready);
  return command;
}

}  // namespace geminga
