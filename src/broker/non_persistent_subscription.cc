#include "broker/non_persistent_subscription.h"

#include <algorithm>

#include "base/clock.h"
#include "broker/batch_parts.h"
#include "broker/consumer.h"
#include "broker/dispatcher_config.h"
#include "broker/dispatcher_failover.h"
#include "broker/key_shared_selector.h"
#include "broker/topic.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace {

class MemorySubscription final : public NonPersistentSubscription,
                                 public Consumer::Owner,
                                 public std::enable_shared_from_this<MemorySubscription> {
 public:
  MemorySubscription(Topic& topic, std::string name, const DispatcherConfig& config)
      : topic_(topic), name_(std::move(name)), config_(config) {}
  ~MemorySubscription() override {
    for (auto& consumer : consumers_) consumer->detach();
  }

  void deliver(const Buffer& entry, std::uint32_t messages) override;

  const std::string& name() const override { return name_; }
  std::optional<SubscriptionType> type() const override { return type_; }
  std::size_t consumer_count() const override { return consumers_.size(); }
  ManagedCursor* cursor() const override { return nullptr; }

  Task<Result<std::shared_ptr<Consumer>>> add_consumer(SubscribeRequest request) override;
  void remove_consumer(const std::shared_ptr<Consumer>& consumer) override;
  void flow(Consumer& consumer, std::uint32_t permits) override {
    if (consumer.attached()) consumer.add_permits(permits);
  }
  // Nothing is kept, so there is nothing to acknowledge, to send again or to go back to.
  Status ack(Consumer&, const AckRequest&) override { return Status::ok(); }
  void redeliver(Consumer&, std::span<const Position>, std::int64_t) override {}
  Task<Status> seek(Position, AckSet) override { co_return Status::ok(); }
  Task<Status> seek_to_time(std::int64_t) override { co_return Status::ok(); }
  Task<Status> skip_all() override { co_return Status::ok(); }
  Task<Status> skip(std::int64_t) override { co_return Status::ok(); }
  Task<Status> expire(std::int64_t) override {
    co_return Status::NotAllowed(
        "messages of a non-persistent topic are not kept and cannot expire");
  }
  Task<Status> prepare_unsubscribe(const std::shared_ptr<Consumer>& consumer, bool force) override;
  Task<void> close(bool deleting) override;
  void entries_available() override {}
  void consumer_writable() override {}

  SubscriptionStats stats() const override;
  SubscriptionSample sample(bool with_consumers) const override;
  ConsumerStats stats_of(const Consumer& consumer) const override;

 private:
  SubscriptionNumbers numbers() const;
  Task<Status> make_way(const SubscribeRequest& request);
  Status admit(const SubscribeRequest& request) const;
  void disconnect(const Consumer* except);
  void send(Consumer* consumer, const Buffer& entry, std::uint32_t messages);
  // Who gets the next entry; nullptr: nobody can take it.
  Consumer* receiver();
  void deliver_by_key(const Buffer& entry, std::uint32_t messages);
  bool deliver_in_parts(const Buffer& entry, const EntryMetadata& metadata);
  Consumer* owner_of(std::uint32_t hash) const {
    return selector_->select(selector_->slot_of(hash));
  }
  Consumer* next_in_turn();
  void choose_active(bool joined);
  void tick();

  Topic& topic_;
  const std::string name_;
  const DispatcherConfig config_;
  std::optional<SubscriptionType> type_;
  bool durable_ = true;
  bool closed_ = false;
  std::vector<std::shared_ptr<Consumer>> consumers_;  // by priority
  Consumer* active_ = nullptr;                        // Exclusive, Failover
  Consumer* last_ = nullptr;                          // Shared: who had the last one
  std::unique_ptr<KeySharedSelector> selector_;       // Key_Shared
  KeySharedOptions key_shared_;
  std::string key_scratch_;
  // Of the messages of the batch that is shared out.
  std::vector<std::uint32_t> hashes_;
  std::vector<const Consumer*> owners_;
  RateMeter messages_out_, bytes_out_, dropped_;
  std::int64_t now_ms_ = 0;  // when the last entry came
  std::int64_t ticked_ms_ = now_ms();
  std::int64_t last_consumed_ms_ = 0;
};

void MemorySubscription::deliver(const Buffer& entry, std::uint32_t messages) {
  tick();
  messages = std::max<std::uint32_t>(messages, 1);
  if (type_ == SubscriptionType::KeyShared && !consumers_.empty()) {
    deliver_by_key(entry, messages);
  } else {
    send(receiver(), entry, messages);
  }
}

// To a consumer that can take it; otherwise it is dropped.
void MemorySubscription::send(Consumer* consumer, const Buffer& entry, std::uint32_t messages) {
  if (consumer == nullptr || !consumer->wants_more()) {
    dropped_.add(messages);
    return;
  }
  Delivery delivery;
  delivery.consumer_id = consumer->id();
  delivery.position = {0, 0};
  delivery.partition = topic_.name().partition_index();
  delivery.consumer_epoch = consumer->epoch();
  consumer->send(delivery, entry, messages, now_ms_);
  messages_out_.add(messages);
  bytes_out_.add(static_cast<std::int64_t>(entry.size()));
  last_consumed_ms_ = now_ms_;
}

// There is no timer a subscription: rates advance with what is published.
void MemorySubscription::tick() {
  now_ms_ = now_ms();
  if (now_ms_ - ticked_ms_ < config_.watch_interval.count()) return;
  ticked_ms_ = now_ms_;
  messages_out_.tick(now_ms_);
  bytes_out_.tick(now_ms_);
  dropped_.tick(now_ms_);
  for (auto& consumer : consumers_) consumer->tick(now_ms_);
}

Consumer* MemorySubscription::receiver() {
  if (consumers_.empty()) return nullptr;
  return type_ == SubscriptionType::Shared ? next_in_turn() : active_;
}

void MemorySubscription::deliver_by_key(const Buffer& entry, std::uint32_t messages) {
  const auto metadata = parse_entry_metadata(entry.span());
  if (!metadata) {
    dropped_.add(messages);
    return;
  }
  if (is_open_batch(*metadata) && deliver_in_parts(entry, *metadata)) return;
  send(owner_of(sticky_key_hash(sticky_key(*metadata, key_scratch_))), entry, messages);
}

// Each consumer gets a batch of its own with the messages of its keys (docs/decisions/0004): there
// is nothing to acknowledge, so nobody has to be shown the stored entry. False: the batch cannot be
// read.
bool MemorySubscription::deliver_in_parts(const Buffer& entry, const EntryMetadata& metadata) {
  const Result<Buffer> payload = batch_payload(entry, metadata);
  if (!payload || !hashes_of_batch(*payload, metadata, hashes_)) return false;
  const auto total = static_cast<std::uint32_t>(hashes_.size());
  owners_.clear();
  for (const std::uint32_t hash : hashes_) owners_.push_back(owner_of(hash));
  std::uint32_t shared_out = 0;
  for (const std::shared_ptr<Consumer>& consumer : consumers_) {
    AckSet picked = no_bits(total);
    std::uint32_t messages = 0;
    for (std::size_t i = 0; i < total; ++i) {
      if (owners_[i] != consumer.get()) continue;
      put_bit(picked, i);
      ++messages;
    }
    if (messages == 0) continue;
    shared_out += messages;
    if (messages == total) {
      send(consumer.get(), entry, messages);
      break;
    }
    if (!consumer->wants_more()) {
      dropped_.add(messages);
      continue;
    }
    const Result<Buffer> part = pick_messages(entry, metadata, *payload, picked);
    send(part ? consumer.get() : nullptr, part ? *part : entry, messages);
  }
  dropped_.add(total - shared_out);  // of keys that nobody has
  return true;
}

Consumer* MemorySubscription::next_in_turn() {
  const std::size_t n = consumers_.size();
  std::size_t first = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (consumers_[i].get() == last_) first = i + 1;
  }
  Consumer* best = nullptr;
  for (std::size_t i = 0; i < n; ++i) {
    Consumer* candidate = consumers_[(first + i) % n].get();
    if (!candidate->wants_more()) continue;
    if (best == nullptr || candidate->priority() < best->priority()) best = candidate;
  }
  if (best != nullptr) last_ = best;
  return best;
}

Task<Status> MemorySubscription::make_way(const SubscribeRequest& request) {
  while (!closed_ && type_ == SubscriptionType::Exclusive &&
         request.type == SubscriptionType::Exclusive && !consumers_.empty()) {
    auto present = consumers_.front();
    auto outbox = present->shared_outbox();
    if (outbox->connected()) {
      if (outbox->peer().connection_id == request.outbox->peer().connection_id)
        co_return Status::ok();
      if (co_await outbox->probe_alive(config_.liveness_timeout)) {
        if (present->attached()) co_return Status::ok();  // admit() refuses
        continue;
      }
    }
    remove_consumer(present);
  }
  co_return Status::ok();
}

Status MemorySubscription::admit(const SubscribeRequest& request) const {
  if (consumers_.empty()) return Status::ok();
  if (type_ != request.type) return Status::ConsumerBusy("Subscription is of different type");
  if (type_ == SubscriptionType::Exclusive) {
    return Status::ConsumerBusy("Exclusive consumer is already connected");
  }
  if (type_ == SubscriptionType::KeyShared) {
    const KeySharedOptions options = request.key_shared.value_or(KeySharedOptions{});
    if (options.mode != key_shared_.mode ||
        options.allow_out_of_order != key_shared_.allow_out_of_order) {
      return Status::ConsumerBusy("Subscription is of different type");
    }
  }
  const std::size_t limit = config_.max_consumers_per_subscription;
  if (limit > 0 && consumers_.size() >= limit) {
    return Status::ConsumerBusy("Subscription reached max consumers limit");
  }
  return Status::ok();
}

Task<Result<std::shared_ptr<Consumer>>> MemorySubscription::add_consumer(SubscribeRequest request) {
  using Added = Result<std::shared_ptr<Consumer>>;
  auto self = shared_from_this();
  Status status = co_await make_way(request);
  if (closed_) co_return Added(Status::ServiceNotReady("Subscription is fenced"));
  if (status = admit(request); !status) co_return Added(std::move(status));
  if (consumers_.empty()) {
    type_ = request.type;
    durable_ = request.durable;
    key_shared_ = request.key_shared.value_or(KeySharedOptions{});
    selector_.reset();
    if (type_ == SubscriptionType::KeyShared) {
      selector_ = make_selector(key_shared_.mode, config_);
    }
  }
  auto consumer = std::make_shared<Consumer>(request);
  if (selector_) {
    if (status = selector_->add(*consumer); !status) co_return Added(std::move(status));
  }
  consumer->attach(this);
  const auto at = std::find_if(consumers_.begin(), consumers_.end(), [&](const auto& other) {
    return other->priority() > consumer->priority();
  });
  consumers_.insert(at, consumer);
  choose_active(true);
  co_return Added(std::move(consumer));
}

void MemorySubscription::choose_active(bool joined) {
  if (type_ == SubscriptionType::Exclusive)
    active_ = consumers_.empty() ? nullptr : consumers_.front().get();
  if (type_ != SubscriptionType::Failover || consumers_.empty()) return;
  const std::size_t index =
      choose_failover_active(topic_.name(), config_.failover_consistent_hashing, consumers_);
  Consumer* before = std::exchange(active_, consumers_[index].get());
  if (before == active_ && !joined) return;
  for (auto& consumer : consumers_) {
    // Clients know a consumer only once SUBSCRIBE was answered: tell it after that.
    topic_.shard().post([consumer, active = consumer.get() == active_] {
      if (consumer->attached())
        consumer->outbox().send_active_consumer_change(consumer->id(), active);
    });
  }
}

void MemorySubscription::remove_consumer(const std::shared_ptr<Consumer>& consumer) {
  const auto at = std::find(consumers_.begin(), consumers_.end(), consumer);
  if (at == consumers_.end()) return;
  auto self = shared_from_this();  // the topic may drop it below
  consumers_.erase(at);
  consumer->detach();
  if (selector_) selector_->remove(*consumer);
  if (last_ == consumer.get()) last_ = nullptr;
  if (active_ == consumer.get()) active_ = nullptr;
  choose_active(false);
  if (consumers_.empty() && !durable_ && !closed_) topic_.drop_non_durable(name_);
}

void MemorySubscription::disconnect(const Consumer* except) {
  for (auto& consumer : consumers_) {
    if (consumer.get() != except) consumer->outbox().send_close_consumer(consumer->id());
    consumer->detach();
  }
  consumers_.clear();
  selector_.reset();
  active_ = nullptr;
  last_ = nullptr;
}

Task<Status> MemorySubscription::prepare_unsubscribe(const std::shared_ptr<Consumer>& consumer,
                                                     bool force) {
  if (!consumer->attached()) co_return Status::Metadata("Consumer not found");
  if (consumers_.size() > 1 && !force) {
    co_return Status::Metadata("Unconnected or shared consumer attempting to unsubscribe");
  }
  closed_ = true;
  disconnect(consumer.get());
  co_return Status::ok();
}

Task<void> MemorySubscription::close(bool) {
  closed_ = true;
  disconnect(nullptr);
  co_return;
}

SubscriptionNumbers MemorySubscription::numbers() const {
  SubscriptionNumbers numbers;
  numbers.consumer_count = consumers_.size();
  numbers.msg_rate_out = messages_out_.rate();
  numbers.msg_throughput_out = bytes_out_.rate();
  numbers.bytes_out = bytes_out_.total();
  numbers.msg_out = messages_out_.total();
  numbers.msg_drop = dropped_.total();
  numbers.msg_drop_rate = dropped_.rate();
  numbers.last_consumed_ms = last_consumed_ms_;
  return numbers;
}

SubscriptionSample MemorySubscription::sample(bool with_consumers) const {
  SubscriptionSample sample{name_, numbers(), {}};
  if (!with_consumers) return sample;
  for (const auto& consumer : consumers_)
    sample.consumers.push_back({consumer->name(), consumer->numbers()});
  return sample;
}

SubscriptionStats MemorySubscription::stats() const {
  SubscriptionStats stats;
  static_cast<SubscriptionNumbers&>(stats) = numbers();
  stats.name = name_;
  stats.type = type_;
  stats.durable = durable_;
  if (active_ != nullptr) stats.active_consumer_name = active_->name();
  if (type_ == SubscriptionType::KeyShared) {
    stats.key_shared_mode = key_shared_.mode == KeySharedMode::Sticky ? "STICKY" : "AUTO_SPLIT";
    stats.allow_out_of_order = key_shared_.allow_out_of_order;
  }
  for (const auto& consumer : consumers_) stats.consumers.push_back(stats_of(*consumer));
  return stats;
}

ConsumerStats MemorySubscription::stats_of(const Consumer& consumer) const {
  ConsumerStats stats = consumer.stats();
  if (selector_) stats.key_hash_ranges = ranges_text(*selector_, consumer);
  return stats;
}

}  // namespace

std::shared_ptr<NonPersistentSubscription> make_non_persistent_subscription(
    Topic& topic, std::string name, const BrokerConfig& config) {
  return std::make_shared<MemorySubscription>(topic, std::move(name), dispatcher_config(config));
}

}  // namespace geminga
