#include "broker/non_persistent_topic.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/config.h"
#include "broker/non_persistent_subscription.h"
#include "broker/topic_settings.h"

namespace geminga {

namespace {
Status not_available() { return Status::ServiceNotReady("Topic is temporarily unavailable"); }
}  // namespace

NonPersistentTopic::NonPersistentTopic(Shard& shard, TopicName name, const BrokerConfig& config)
    : shard_(shard),
      name_(std::move(name)),
      config_(config),
      producers_(name_.full(), shard, gate_,
                 [](std::uint64_t) -> Task<Status> { co_return Status::ok(); }) {
  producers_.set_liveness_timeout(Millis(config.connection_liveness_check_timeout_millis));
}

NonPersistentTopic::~NonPersistentTopic() = default;

void NonPersistentTopic::apply(const TopicSettings& settings) {
  producers_.set_limit(static_cast<std::size_t>(settings.max_producers));
  settings_ = settings;
  subscribe_rate_.set(settings.subscribe_rate, settings.subscribe_period_seconds);
  if (settings.publish_rate.limited() && pacer_ == nullptr) {
    pacer_ = std::make_unique<PublishPacer>(
        shard_, [this](std::vector<PublishItem>& items) { publish_now(items); });
  }
  if (pacer_ != nullptr) pacer_->limit(settings.publish_rate);
}

Task<Result<ProducerGrant>> NonPersistentTopic::add_producer(ProducerRequest request) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside || closing_) co_return not_available();
  if (settings_.encryption_required && !request.encrypted) {
    co_return Status::Metadata(fmt::format("Encryption is required in {}", name_.full()));
  }
  auto producer = std::make_shared<Producer>(std::move(request));
  Result<ProducerGrant> grant = co_await producers_.add(producer);
  if (grant && closing_) {
    producer->set_state(Producer::State::Closed);
    producers_.remove(producer);
    co_return not_available();
  }
  co_return grant;
}

Task<void> NonPersistentTopic::remove_producer(std::shared_ptr<Producer> producer) {
  if (producer->state() != Producer::State::Fenced) producer->set_state(Producer::State::Closed);
  producers_.remove(producer);
  co_return;
}

void NonPersistentTopic::publish(std::vector<PublishItem>& items) {
  if (pacer_ != nullptr && !pacer_->idle() && !closing_) return pacer_->offer(items);
  publish_now(items);
}

void NonPersistentTopic::publish_now(std::vector<PublishItem>& items) {
  const std::int64_t now = monotonic_ns();
  for (PublishItem& item : items) {
    Producer& producer = *item.producer;
    Outbox& outbox = producer.outbox();
    if (producer.state() != Producer::State::Active || closing_) {
      if (producer.state() == Producer::State::Fenced) {
        outbox.close_connection("SEND of a producer that was fenced out");
      }
      outbox.forget_publishes(1);
      continue;
    }
    if (settings_.max_message_size > 0 && item.refused.is_ok() &&
        static_cast<std::int64_t>(item.entry.size()) > settings_.max_message_size) {
      item.refused = Status::NotAllowed("Exceed maximum message size");
    }
    if (!item.refused.is_ok()) {
      outbox.send_error(producer.id(), item.sequence_id, item.refused);
      continue;
    }
    producer.count(item.messages, item.entry.size(), item.is_chunk, now);
    messages_in_ += item.messages;
    bytes_in_ += static_cast<std::int64_t>(item.entry.size());
    message_rate_.add(item.messages, now);
    byte_rate_.add(static_cast<std::int64_t>(item.entry.size()), now);
    for (const auto& [name, subscription] : subscriptions_)
      subscription->deliver(item.entry, item.messages);
    outbox.send_receipt(producer.id(), item.sequence_id,
                        item.has_highest_sequence_id ? item.highest_sequence_id : ~std::uint64_t{0},
                        {0, 0});
  }
  items.clear();
}

std::shared_ptr<NonPersistentSubscription> NonPersistentTopic::find_or_create(
    const std::string& name) {
  auto& subscription = subscriptions_[name];
  if (subscription == nullptr)
    subscription = make_non_persistent_subscription(*this, name, config_);
  return subscription;
}

std::shared_ptr<Subscription> NonPersistentTopic::subscription(const std::string& name) const {
  const auto at = subscriptions_.find(name);
  if (at == subscriptions_.end()) return nullptr;
  return at->second;
}

std::vector<std::string> NonPersistentTopic::subscription_names() const {
  std::vector<std::string> names;
  for (const auto& [name, subscription] : subscriptions_) names.push_back(name);
  return names;
}

Task<Result<Topic::Subscribed>> NonPersistentTopic::subscribe(SubscribeRequest request) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside || closing_) co_return not_available();
  GM_CO_RETURN_IF_ERROR(room_for_consumer(request));
  Subscribed subscribed;
  subscribed.subscription = find_or_create(request.subscription);
  GM_CO_ASSIGN_OR_RETURN(subscribed.consumer,
                         co_await subscribed.subscription->add_consumer(std::move(request)));
  if (closing_) {
    subscribed.subscription->remove_consumer(subscribed.consumer);
    co_return not_available();
  }
  co_return subscribed;
}

Status NonPersistentTopic::room_for_consumer(const SubscribeRequest& request) {
  if (!settings_.types_allowed[static_cast<std::size_t>(request.type)]) {
    return Status::NotAllowed(fmt::format("Topic[{}] doesn't support {} sub type!", name_.full(),
                                          to_string(request.type)));
  }
  if (settings_.max_consumers > 0 &&
      consumer_count() >= static_cast<std::size_t>(settings_.max_consumers)) {
    return Status::ConsumerBusy("Topic reached max consumers limit");
  }
  const auto subscription = subscriptions_.find(request.subscription);
  const bool is_new = subscription == subscriptions_.end();
  if (is_new) {
    GM_RETURN_IF_ERROR(settings_.room_for_subscription(subscriptions_.size(), name_.full()));
  }
  const std::int64_t most = settings_.max_consumers_per_subscription;
  if (!is_new && most > 0 &&
      subscription->second->consumer_count() >= static_cast<std::size_t>(most)) {
    return Status::ConsumerBusy("Subscription reached max consumers limit");
  }
  if (!subscribe_rate_.admit(consumer_identity(request), monotonic_ns()))
    return Status::NotAllowed("Subscribe limited by subscribe rate limit per consumer.");
  return Status::ok();
}

Task<Status> NonPersistentTopic::create_subscription(std::string name, Position,
                                                     std::map<std::string, std::string>) {
  if (closing_) co_return not_available();
  if (subscriptions_.contains(name)) {
    co_return Status::AlreadyExists(fmt::format("Subscription {} already exists for topic", name));
  }
  find_or_create(name);
  co_return Status::ok();
}

Task<Status> NonPersistentTopic::delete_subscription(std::string name, bool force) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  const auto at = subscriptions_.find(name);
  if (at == subscriptions_.end()) {
    co_return Status::SubscriptionNotFound(
        fmt::format("Subscription {} not found for topic {}", name, name_.full()));
  }
  auto gone = at->second;
  if (gone->consumer_count() > 0 && !force) {
    co_return Status::PreconditionFailed("Subscription has active connected consumers");
  }
  subscriptions_.erase(at);
  co_await gone->close(true);
  co_return Status::ok();
}

void NonPersistentTopic::drop_non_durable(const std::string& name) {
  const auto at = subscriptions_.find(name);
  if (at == subscriptions_.end()) return;
  // Called from inside the subscription: let it return first.
  shard_.post([self = shared_from_this(), gone = std::move(at->second)] {});
  subscriptions_.erase(at);
}

Task<Result<Topic::LastMessage>> NonPersistentTopic::last_message_id() {
  co_return Status::Unknown("a non-persistent topic has no last message id");
}

Task<Result<Position>> NonPersistentTopic::terminate() {
  co_return Status::NotAllowed("Termination of a non-persistent topic is not allowed");
}

Task<void> NonPersistentTopic::disconnect_all(bool deleting) {
  closing_ = true;
  if (pacer_ != nullptr) pacer_->drop();
  producers_.close_all();
  const auto subscriptions = subscriptions_;
  for (const auto& [name, subscription] : subscriptions) co_await subscription->close(deleting);
  co_await gate_.close();
}

Task<Status> NonPersistentTopic::close() {
  auto self = shared_from_this();
  co_await disconnect_all(false);
  co_return Status::ok();
}

Task<Status> NonPersistentTopic::remove(bool force) {
  auto self = shared_from_this();
  if (closing_) co_return not_available();
  if (!force && producers_.size() + consumer_count() > 0) {
    co_return Status::PreconditionFailed(fmt::format("Topic has {} connected producers/consumers",
                                                     producers_.size() + consumer_count()));
  }
  co_await disconnect_all(true);
  co_return Status::ok();
}

std::size_t NonPersistentTopic::consumer_count() const {
  std::size_t count = 0;
  for (const auto& [name, subscription] : subscriptions_) count += subscription->consumer_count();
  return count;
}

TopicNumbers NonPersistentTopic::numbers(std::int64_t now) const {
  TopicNumbers numbers;
  numbers.msg_rate_in = message_rate_.per_second(now);
  numbers.msg_throughput_in = byte_rate_.per_second(now);
  numbers.average_msg_size =
      numbers.msg_rate_in > 0 ? numbers.msg_throughput_in / numbers.msg_rate_in : 0;
  numbers.msg_in_counter = messages_in_;
  numbers.bytes_in_counter = bytes_in_;
  numbers.backlog_quota_bytes = 0;  // as Pulsar has it
  return numbers;
}

TopicStats NonPersistentTopic::stats() const {
  const std::int64_t now = monotonic_ns();
  TopicStats stats;
  static_cast<TopicNumbers&>(stats) = numbers(now);
  stats.topic_epoch = producers_.epoch();
  if (pacer_ != nullptr) stats.publish_rate_limited = pacer_->times_limited();
  for (const auto& [name, producer] : producers_.all())
    stats.publishers.push_back(producer->stats(now));
  for (const auto& [name, subscription] : subscriptions_)
    stats.subscriptions.push_back(subscription->stats());
  return stats;
}

TopicSample NonPersistentTopic::sample(SampleDetail detail) const {
  const std::int64_t now = monotonic_ns();
  TopicSample sample;
  sample.name = name_.full();
  sample.numbers = numbers(now);
  producers_.sample(sample, detail, now);
  sample.subscription_count = subscriptions_.size();
  for (const auto& [name, subscription] : subscriptions_)
    sample.subscriptions.push_back(subscription->sample(detail.consumers));
  return sample;
}

}  // namespace geminga
