#include "broker/consumer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace geminga {

namespace {

std::string iso_8601(std::int64_t ms) {
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), ms % 1000);
}

}  // namespace

Consumer::Consumer(const SubscribeRequest& request)
    : outbox_(request.outbox),
      id_(request.consumer_id),
      name_(request.consumer_name),
      priority_(request.priority_level),
      read_compacted_(request.read_compacted),
      key_shared_(request.key_shared),
      metadata_(request.metadata),
      epoch_(request.consumer_epoch),
      connected_ms_(now_ms()) {}

Consumer::~Consumer() { detach(); }

void Consumer::attach(Owner* owner) {
  owner_ = owner;
  // The session learns of it after the subscription did; the listener is the consumer, so that two
  // consumers of one connection are two listeners.
  outbox_->add_writable_listener(this);
}

void Consumer::detach() {
  if (owner_ == nullptr) return;
  owner_ = nullptr;
  outbox_->remove_writable_listener(this);
}

void Consumer::add_permits(std::uint32_t permits) {
  permits_ += permits;
  last_flow_ms_ = now_ms();
}

std::size_t Consumer::entries_wanted(std::size_t at_most) const {
  if (permits_ <= 1 || at_most <= 1) return 1;
  const double entries = static_cast<double>(permits_) / std::max(messages_per_entry_, 1.0);
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(entries)), 1, at_most);
}

void Consumer::send(const Delivery& delivery, const Buffer& entry, std::uint32_t messages,
                    std::int64_t now) {
  outbox_->send_message(delivery, entry);
  permits_ -= messages;
  messages_out_.add(messages);
  bytes_out_.add(static_cast<std::int64_t>(entry.size()));
  if (delivery.redelivery_count > 0) redelivered_.add(messages);
  messages_per_entry_ = messages_per_entry_ == 0
                            ? messages
                            : messages_per_entry_ * 0.9 + static_cast<double>(messages) * 0.1;
  last_consumed_ms_ = now;
}

void Consumer::acked(std::int64_t messages, std::int64_t now) {
  acked_.add(messages);
  last_acked_ms_ = now;
}

void Consumer::tick(std::int64_t now) {
  messages_out_.tick(now);
  bytes_out_.tick(now);
  redelivered_.tick(now);
  acked_.tick(now);
}

void Consumer::outbox_writable() {
  if (owner_ != nullptr) owner_->consumer_writable();
}

ConsumerNumbers Consumer::numbers() const {
  ConsumerNumbers stats;
  stats.consumer_id = id_;
  stats.msg_rate_out = messages_out_.rate();
  stats.msg_throughput_out = bytes_out_.rate();
  stats.msg_rate_redeliver = redelivered_.rate();
  stats.message_ack_rate = acked_.rate();
  stats.bytes_out = bytes_out_.total();
  stats.msg_out = messages_out_.total();
  stats.available_permits = permits_;
  stats.unacked_messages = pending.messages();
  stats.last_acked_ms = last_acked_ms_;
  stats.last_consumed_ms = last_consumed_ms_;
  stats.last_consumed_flow_ms = last_flow_ms_;
  stats.avg_messages_per_entry = std::round(messages_per_entry_);
  return stats;
}

ConsumerStats Consumer::stats() const {
  ConsumerStats stats;
  static_cast<ConsumerNumbers&>(stats) = numbers();
  stats.consumer_name = name_;
  stats.address = outbox_->peer().address;
  stats.client_version = outbox_->peer().client_version;
  stats.connected_since = iso_8601(connected_ms_);
  stats.metadata = metadata_;
  return stats;
}

}  // namespace geminga
