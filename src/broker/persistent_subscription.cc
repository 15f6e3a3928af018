#include "broker/persistent_subscription.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "broker/dispatcher_exclusive.h"
#include "broker/dispatcher_failover.h"
#include "broker/dispatcher_key_shared.h"
#include "broker/dispatcher_shared.h"
#include "broker/topic.h"
#include "managed_ledger/delayed_index.h"
#include "managed_ledger/managed_ledger.h"

namespace geminga {

namespace {
constexpr char kReplicated[] = "pulsar.replicated.subscription";  // as Pulsar marks its cursors

// A non-durable subscription whose consumers a seek has disconnected may wait so long for them to
// come back.
constexpr std::int64_t kAbandonedAfterMs = 60'000;

bool acks_one_by_one(SubscriptionType type) {
  return type == SubscriptionType::Shared || type == SubscriptionType::KeyShared;
}

}  // namespace

std::shared_ptr<Subscription> make_persistent_subscription(PersistentSubscriptionEnv env) {
  return std::make_shared<PersistentSubscription>(
      env.topic, env.ledger, std::move(env.cursor), std::move(env.name), env.durable,
      dispatcher_config(env.config), std::move(env.transactions));
}

PersistentSubscription::PersistentSubscription(Topic& topic, ManagedLedger& ledger,
                                               std::shared_ptr<ManagedCursor> cursor,
                                               std::string name, bool durable,
                                               const DispatcherConfig& config,
                                               SubscriptionTransactionsEnv transactions)
    : topic_(topic),
      ledger_(ledger),
      cursor_(std::move(cursor)),
      name_(std::move(name)),
      durable_(durable),
      config_(config),
      transactions_(std::move(transactions), *cursor_) {
  transactions_.set_topic_ledger(ledger);
  if (topic_.compaction() != nullptr)
    compacted_ = std::make_unique<CompactedReads>(*topic_.compaction(), ledger_, *cursor_);
}

void PersistentSubscription::read_compacted_from(Position next) {
  read_compacted_ = true;
  if (compacted_) compacted_->start_at(next);
}

PersistentSubscription::~PersistentSubscription() = default;

std::size_t PersistentSubscription::consumer_count() const {
  return dispatcher_ ? dispatcher_->consumers().size() : 0;
}

std::shared_ptr<Dispatcher> PersistentSubscription::make_dispatcher(
    const SubscribeRequest& request) {
  const DispatcherEnv env{topic_,
                          ledger_,
                          *cursor_,
                          topic_.shard(),
                          gate_,
                          config_,
                          redeliveries(),
                          counters_,
                          name_,
                          durable_,
                          transactions_.acks(),
                          compacted_.get(),
                          &rate_};
  switch (request.type) {
    case SubscriptionType::Exclusive: return std::make_shared<DispatcherExclusive>(env);
    case SubscriptionType::Failover: return std::make_shared<DispatcherFailover>(env);
    case SubscriptionType::Shared: return std::make_shared<DispatcherShared>(env);
    case SubscriptionType::KeyShared: break;
  }
  return std::make_shared<DispatcherKeyShared>(env,
                                               request.key_shared.value_or(KeySharedOptions{}));
}

Task<Status> PersistentSubscription::make_way(const SubscribeRequest& request) {
  for (;;) {
    if (closed_) co_return Status::ServiceNotReady("Subscription is fenced");
    if (resetting_) {
      auto reset = resetting_;
      co_await reset->wait();
      continue;
    }
    if (consumer_count() == 0 || dispatcher_->type() != SubscriptionType::Exclusive ||
        request.type != SubscriptionType::Exclusive) {
      co_return Status::ok();
    }
    auto present = dispatcher_->consumers().front();
    auto outbox = present->shared_outbox();
    if (outbox->connected()) {
      if (outbox->peer().connection_id == request.outbox->peer().connection_id)
        co_return Status::ok();
      if (co_await outbox->probe_alive(config_.liveness_timeout)) {
        if (present->attached()) co_return Status::ok();  // admit() refuses
        continue;
      }
    }
    GM_LOG_INFO("{}: subscription {}: consumer {} of {} is dead and makes way",
                topic_.name().full(), name_, present->name(), outbox->peer().address);
    if (present->attached()) dispatcher_->remove(*present);
  }
}

Task<Result<std::shared_ptr<Consumer>>> PersistentSubscription::add_consumer(
    SubscribeRequest request) {
  using Added = Result<std::shared_ptr<Consumer>>;
  auto self = shared_from_this();
  Status status = co_await make_way(request);
  if (!status) co_return Added(std::move(status));
  if (consumer_count() == 0) {
    if (dispatcher_) dispatcher_->stop();
    dispatcher_ = make_dispatcher(request);
    type_ = request.type;
  } else if (dispatcher_->type() != request.type) {
    co_return Added(Status::ConsumerBusy("Subscription is of different type"));
  } else if (status = dispatcher_->admit(request); !status) {
    co_return Added(std::move(status));
  }
  if (config_.max_consumers_per_subscription > 0 &&
      consumer_count() >= config_.max_consumers_per_subscription) {
    co_return Added(Status::ConsumerBusy("Subscription reached max consumers limit"));
  }
  auto consumer = std::make_shared<Consumer>(request);
  read_compacted_ = request.read_compacted;
  status = dispatcher_->add(consumer);
  if (!status) co_return Added(std::move(status));
  cursor_->touch();
  watch_later();
  co_return Added(std::move(consumer));
}

void PersistentSubscription::remove_consumer(const std::shared_ptr<Consumer>& consumer) {
  if (!consumer->attached() || !dispatcher_) return;
  auto self = shared_from_this();  // the topic may drop it below
  dispatcher_->remove(*consumer);
  cursor_->touch();
  if (consumer_count() > 0) return;
  left_ms_ = now_ms();
  if (!durable_ && !resetting_ && !closed_) topic_.drop_non_durable(name_);
}

void PersistentSubscription::flow(Consumer& consumer, std::uint32_t permits) {
  if (!consumer.attached() || !dispatcher_) return;
  counters_.last_flow_ms = now_ms();
  dispatcher_->flow(consumer, permits);
}

Status PersistentSubscription::ack(Consumer& consumer, const AckRequest& request) {
  if (!consumer.attached() || !dispatcher_) return Status::ok();
  if (request.cumulative &&
      (acks_one_by_one(dispatcher_->type()) || request.messages.size() != 1)) {
    return Status::ok();  // Pulsar answers so, too
  }
  const std::int64_t now = now_ms();
  const Position before = cursor_->mark_delete();
  const std::int64_t backlog = cursor_->backlog_messages();
  if (request.cumulative) {
    ack_cumulatively(request.messages.front());
  } else {
    for (const AckedMessage& message : request.messages) dispatcher_->ack(consumer, message);
  }
  const std::int64_t acked = backlog - cursor_->backlog_messages();
  consumer.acked(acked, now);
  counters_.acked.add(acked);
  counters_.last_acked_ms = now;
  if (cursor_->mark_delete() != before) counters_.last_mark_delete_ms = now;
  dispatcher_->announce_end_of_topic();
  return Status::ok();
}

void PersistentSubscription::ack_cumulatively(const AckedMessage& message) {
  if (message.remaining.empty()) {
    cursor_->ack_cumulative(message.position);
    if (compacted_) compacted_->ack_cumulative(message.position);
  } else {
    // Everything before, and of this entry what the client says.
    cursor_->ack_cumulative(ledger_.previous(message.position));
    if (compacted_)
      compacted_->ack_cumulative({message.position.ledger, message.position.entry - 1});
    if (config_.batch_index_ack) {
      cursor_->ack_partly(message.position, message.remaining, message.batch_size);
    }
  }
  dispatcher_->mark_delete_moved();
}

void PersistentSubscription::redeliver(Consumer& consumer, std::span<const Position> positions,
                                       std::int64_t epoch) {
  if (!consumer.attached() || !dispatcher_) return;
  dispatcher_->redeliver(consumer, positions, epoch);
}

void PersistentSubscription::disconnect(const Consumer* except) {
  if (!dispatcher_) return;
  auto gone = std::move(dispatcher_);
  gone->stop();
  for (const auto& consumer : gone->consumers()) {
    if (consumer.get() != except) consumer->outbox().send_close_consumer(consumer->id());
    consumer->detach();
  }
  left_ms_ = now_ms();
}

Task<Status> PersistentSubscription::reset_to(Position position, AckSet remaining) {
  auto self = shared_from_this();
  auto inside = gate_.hold();
  if (!inside) co_return Status::ServiceNotReady("Subscription is fenced");
  auto lock = co_await reset_mutex_.lock();
  if (closed_) co_return Status::ServiceNotReady("Subscription is fenced");
  resetting_ = std::make_shared<Event>();
  disconnect(nullptr);
  // Where the compacted data begin before the log does, they are sought, too.
  if (compacted_) compacted_->start_at(position);
  Status status = co_await cursor_->reset(position);
  if (status && !remaining.empty() && config_.batch_index_ack) {
    cursor_->ack_partly(position, remaining, 0);
  }
  watch_later();
  auto over = std::exchange(resetting_, nullptr);
  over->set();
  co_return status;
}

Task<Status> PersistentSubscription::seek(Position position, AckSet remaining) {
  return reset_to(position, std::move(remaining));
}

Task<Result<Position>> PersistentSubscription::first_at_or_after(std::int64_t time_ms) {
  return ledger_.find_first([time_ms](const Entry& entry) {
    const auto metadata = parse_entry_metadata(entry.data.span());
    return metadata && metadata->timestamp() >= time_ms;
  });
}

Task<Status> PersistentSubscription::seek_to_time(std::int64_t time_ms) {
  auto self = shared_from_this();
  auto inside = gate_.hold();
  if (!inside) co_return Status::ServiceNotReady("Subscription is fenced");
  auto position = co_await first_at_or_after(time_ms);
  if (position && read_compacted_ && compacted_)
    position = co_await compacted_->first_published_at(time_ms, *position);
  if (!position) co_return position.status();
  co_return co_await reset_to(*position, AckSet{});
}

Task<Status> PersistentSubscription::prepare_unsubscribe(const std::shared_ptr<Consumer>& consumer,
                                                         bool force) {
  if (!consumer->attached() || !dispatcher_) co_return Status::Metadata("Consumer not found");
  if (consumer_count() > 1 && !force) {
    co_return Status::Metadata("Unconnected or shared consumer attempting to unsubscribe");
  }
  closed_ = true;
  disconnect(consumer.get());
  co_return Status::ok();
}

Task<void> PersistentSubscription::close(bool) {
  auto self = shared_from_this();
  closed_ = true;
  disconnect(nullptr);
  if (watch_timer_) watch_timer_->cancel();
  co_await gate_.close();
  const Status closed = co_await transactions_.close();
  if (!closed) {
    GM_LOG_WARN("{}: subscription {}: closing its pending acknowledgements: {}",
                topic_.name().full(), name_, closed.to_string());
  }
}

void PersistentSubscription::mark_delete(Position to) {
  cursor_->ack_cumulative(to);
  counters_.last_mark_delete_ms = now_ms();
  if (!dispatcher_) return;
  dispatcher_->mark_delete_moved();
  dispatcher_->announce_end_of_topic();
}

Task<Status> PersistentSubscription::move_mark_delete(Position to) {
  mark_delete(to);
  co_return co_await cursor_->flush();
}

Task<Status> PersistentSubscription::skip_all() {
  auto self = shared_from_this();
  auto inside = gate_.hold();
  if (!inside) co_return Status::ServiceNotReady("Subscription is fenced");
  co_return co_await move_mark_delete(ledger_.last_confirmed());
}

Task<Status> PersistentSubscription::skip(std::int64_t messages) {
  if (messages < 0) co_return Status::InvalidArgument("cannot skip a negative number of messages");
  auto self = shared_from_this();
  auto inside = gate_.hold();
  if (!inside) co_return Status::ServiceNotReady("Subscription is fenced");
  if (messages >= cursor_->backlog_entries())
    co_return co_await move_mark_delete(ledger_.last_confirmed());
  constexpr std::int64_t kPerTurn = 10'000;
  Position to = cursor_->mark_delete();
  Position from = cursor_->first_unacked();
  for (std::int64_t skipped = 0; skipped < messages; ++skipped) {
    from = cursor_->next_unacked(from);
    if (from > ledger_.last_confirmed()) break;
    to = from;
    ++from.entry;
    if (skipped % kPerTurn == kPerTurn - 1) co_await sleep_for(Millis{0});
  }
  co_return co_await move_mark_delete(to);
}

Task<Status> PersistentSubscription::expire(std::int64_t older_than_seconds) {
  if (older_than_seconds < 0) co_return Status::InvalidArgument("the age must not be negative");
  auto self = shared_from_this();
  auto inside = gate_.hold();
  if (!inside) co_return Status::ServiceNotReady("Subscription is fenced");
  auto first_kept = co_await first_at_or_after(now_ms() - older_than_seconds * 1000);
  if (!first_kept) co_return first_kept.status();
  const Position last_expired = ledger_.previous(*first_kept);
  if (last_expired <= cursor_->mark_delete()) co_return Status::ok();
  const std::int64_t backlog = cursor_->backlog_messages();
  mark_delete(last_expired);
  counters_.expired.add(backlog - cursor_->backlog_messages());
  counters_.last_expire_ms = now_ms();
  watch_later();  // the rate ends, too
  co_return co_await cursor_->flush();
}

void PersistentSubscription::limit_dispatch(const Rate& rate) {
  rate_.set(rate, monotonic_ns());
  if (dispatcher_) dispatcher_->rates_changed();
}

void PersistentSubscription::limit_unacked(std::int64_t per_consumer,
                                           std::int64_t per_subscription) {
  config_.max_unacked_per_consumer = per_consumer;
  config_.max_unacked_per_subscription = per_subscription;
  entries_available();  // there may be room now
}

void PersistentSubscription::set_replicated(bool on) {
  auto numbers = cursor_->position_properties();
  if (on == numbers.contains(kReplicated)) return;
  if (on) {
    numbers[kReplicated] = 1;
  } else {
    numbers.erase(kReplicated);
  }
  cursor_->set_position_properties(std::move(numbers));
}

void PersistentSubscription::entries_available() {
  if (!dispatcher_) return;
  dispatcher_->entries_available();
  if (ledger_.terminated()) dispatcher_->announce_end_of_topic();
}

WaitReason PersistentSubscription::why_waiting() const {
  if (closed_ || resetting_) return WaitReason::Stopped;
  return dispatcher_ ? dispatcher_->why_waiting() : WaitReason::NoConsumer;
}

void PersistentSubscription::watch_later() {
  if (watching_ || closed_) return;
  watching_ = true;
  if (!watch_timer_) watch_timer_.emplace(topic_.shard().executor());
  watch_timer_->expires_after(config_.watch_interval);
  watch_timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    auto self = weak.lock();
    if (!self || cancelled) return;
    self->watching_ = false;
    self->watch();
  });
}

void PersistentSubscription::watch() {
  const std::int64_t now = now_ms();
  counters_.messages_out.tick(now);
  counters_.bytes_out.tick(now);
  counters_.redelivered.tick(now);
  counters_.acked.tick(now);
  counters_.expired.tick(now);
  if (consumer_count() > 0) {
    dispatcher_->watch(now);
    watch_later();
    return;
  }
  const bool abandoned = !durable_ && !resetting_ && now - left_ms_ >= kAbandonedAfterMs;
  if (abandoned && !closed_) {
    topic_.drop_non_durable(name_);
  } else if (!durable_ || counters_.messages_out.rate() > 0 || counters_.acked.rate() > 0 ||
             counters_.expired.rate() > 0) {
    watch_later();  // until the rates show that nothing happens any more
  }
}

SubscriptionNumbers PersistentSubscription::numbers() const {
  SubscriptionNumbers stats;
  stats.msg_rate_out = counters_.messages_out.rate();
  stats.msg_throughput_out = counters_.bytes_out.rate();
  stats.msg_rate_redeliver = counters_.redelivered.rate();
  stats.message_ack_rate = counters_.acked.rate();
  stats.bytes_out = counters_.bytes_out.total();
  stats.msg_out = counters_.messages_out.total();
  stats.msg_backlog = cursor_->backlog_entries();
  stats.messages_backlog = cursor_->backlog_messages();
  stats.backlog_size = cursor_->backlog_bytes();
  stats.non_contiguous_ranges = static_cast<std::int64_t>(cursor_->acked_range_count());
  stats.last_acked_ms = counters_.last_acked_ms;
  stats.last_consumed_ms = counters_.last_consumed_ms;
  stats.last_consumed_flow_ms = counters_.last_flow_ms;
  stats.last_mark_delete_ms = counters_.last_mark_delete_ms;
  stats.last_expire_ms = counters_.last_expire_ms;
  stats.msg_expired = counters_.expired.total();
  stats.msg_rate_expired = counters_.expired.rate();
  stats.committed_txns = counters_.committed_txns;
  stats.aborted_txns = counters_.aborted_txns;
  if (dispatcher_) dispatcher_->measure(stats);
  const DelayedIndex* delayed = topic_.delayed_index();
  if (delayed != nullptr && stats.msg_delayed > 0)
    stats.delayed_index_bytes = static_cast<std::int64_t>(delayed->memory_bytes());
  return stats;
}

SubscriptionStats PersistentSubscription::stats() const {
  SubscriptionStats stats;
  static_cast<SubscriptionNumbers&>(stats) = numbers();
  stats.name = name_;
  stats.type = type_;
  stats.durable = durable_;
  stats.replicated = cursor_->position_properties().contains(kReplicated);
  stats.properties = cursor_->properties();
  if (!dispatcher_) return stats;
  dispatcher_->describe(stats);
  for (const auto& consumer : dispatcher_->consumers())
    stats.consumers.push_back(stats_of(*consumer));
  return stats;
}

SubscriptionSample PersistentSubscription::sample(bool with_consumers) const {
  SubscriptionSample sample{name_, numbers(), {}};
  if (!with_consumers || !dispatcher_) return sample;
  for (const auto& consumer : dispatcher_->consumers()) {
    ConsumerSample& added = sample.consumers.emplace_back();
    added.name = consumer->name();
    added.numbers = consumer->numbers();
    added.numbers.blocked_on_unacked = blocked_on_unacked(added.numbers.unacked_messages);
  }
  return sample;
}

bool PersistentSubscription::blocked_on_unacked(std::int64_t unacked) const {
  const std::int64_t limit = config_.max_unacked_per_consumer;
  return durable_ && limit > 0 && unacked >= limit;
}

ConsumerStats PersistentSubscription::stats_of(const Consumer& consumer) const {
  ConsumerStats stats = consumer.stats();
  if (!dispatcher_) return stats;
  stats.key_hash_ranges = dispatcher_->key_ranges(consumer);
  dispatcher_->describe(consumer, stats);
  stats.blocked_on_unacked = blocked_on_unacked(stats.unacked_messages);
  return stats;
}

std::optional<Explanation> PersistentSubscription::explain() const {
  Explanation out;
  out.reason = why_waiting();
  out.backlog_entries = cursor_->backlog_entries();
  out.backlog_messages = cursor_->backlog_messages();
  out.mark_delete = cursor_->mark_delete();
  out.read_position = cursor_->first_unacked();
  out.last_confirmed = ledger_.last_confirmed();
  out.unacked_limit = config_.max_unacked_per_subscription;
  out.unacked_limit_of_consumer = config_.max_unacked_per_consumer;
  if (type_) out.type = to_string(*type_);
  if (!dispatcher_) return out;
  SubscriptionNumbers stats;
  dispatcher_->measure(stats);
  out.read_position = dispatcher_->read_position();
  out.delayed = stats.msg_delayed;
  out.to_be_sent_again = stats.msg_in_replay;
  out.unacked = stats.unacked_messages;
  for (const auto& consumer : dispatcher_->consumers()) {
    Explanation::OfConsumer of;
    of.name = consumer->name();
    of.reason = dispatcher_->why_waiting(*consumer);
    of.permits = consumer->permits();
    of.unacked = consumer->pending.messages();
    of.parked = static_cast<std::int64_t>(consumer->parked.size());
    for (const DrainingHash& hash : stats_of(*consumer).draining_hashes) {
      out.draining.push_back({hash.hash, consumer->name(), hash.unacked, hash.blocked});
    }
    out.consumers.push_back(std::move(of));
  }
  return out;
}

}  // namespace geminga
