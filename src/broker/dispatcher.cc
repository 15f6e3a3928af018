#include "broker/dispatcher.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/clock.h"
#include "base/log.h"
#include "broker/compacted_reads.h"
#include "broker/topic.h"
#include "runtime/async.h"

namespace geminga {

Dispatcher::Dispatcher(const DispatcherEnv& env, SubscriptionType type)
    : env_(env),
      read_position_(env.cursor.first_unacked()),
      type_(type),
      partition_(env.topic.name().partition_index()) {}

Dispatcher::~Dispatcher() {
  for (auto& consumer : consumers_) consumer->detach();
  env_.shard.forget(*this);
}

Status Dispatcher::admit(const SubscribeRequest&) const { return Status::ok(); }

void Dispatcher::flow(Consumer& consumer, std::uint32_t permits) {
  consumer.add_permits(permits);
  schedule();
}

void Dispatcher::mark_delete_moved() { schedule(); }

void Dispatcher::rewind() {
  ++generation_;
  arrived_.clear();
  read_position_ = env_.cursor.first_unacked();
  schedule();
}

void Dispatcher::stop() {
  stopped_ = true;
  ++generation_;
  arrived_.clear();
  if (retry_timer_) retry_timer_->cancel();
  if (pace_timer_) pace_timer_->cancel();
  env_.shard.forget(*this);
}

void Dispatcher::schedule() {
  if (stopped_ || consumers_.empty() || turn_posted_) return;
  env_.shard.defer(*this);
}

void Dispatcher::run_deferred() {
  if (!turn_posted_) run_turn();
}

void Dispatcher::run_turn() {
  if (stopped_) return;
  if (const std::int64_t wait = rate_wait_ns(); wait > 0) {
    go_on_after(wait);
    return;
  }
  rate_reached_ = false;
  entries_left_ = env_.config.turn_entries;
  bytes_left_ = static_cast<std::int64_t>(env_.config.turn_bytes);
  turn_ms_ = now_ms();
  deliver();
  batch().clear();
  if (!out_of_budget()) return;
  if (rate_reached_) {
    go_on_after(rate_wait_ns());
    return;
  }
  // Deferred work that defers again would run in this same turn: go through the mailbox, behind the
  // others.
  turn_posted_ = true;
  env_.shard.post([weak = weak_from_this()] {
    if (auto self = weak.lock()) {
      self->turn_posted_ = false;
      self->run_turn();
    }
  });
}

// --- rates ---

std::int64_t Dispatcher::rate_wait_ns() {
  std::int64_t wait = 0;
  paced_ = false;
  for (RateLimiter* limiter : {env_.rate, env_.topic.dispatch_rate()}) {
    if (limiter == nullptr || !limiter->limited()) continue;
    paced_ = true;
    const std::int64_t now = monotonic_ns();
    if (limiter->rate().relative_to_publish_rate) limiter->follow(env_.topic.incoming(), now);
    wait = std::max(wait, limiter->wait_ns(now));
  }
  return wait;
}

// What is delivered is taken from the limits; when they are used up the turn ends as one that is
// out of budget does.
void Dispatcher::pay_rates(std::uint32_t messages, std::size_t bytes) {
  for (RateLimiter* limiter : {env_.rate, env_.topic.dispatch_rate()}) {
    if (limiter == nullptr || !limiter->limited()) continue;
    const std::int64_t now = monotonic_ns();
    limiter->take(messages, static_cast<std::int64_t>(bytes), now);
    if (limiter->wait_ns(now) > 0) rate_reached_ = true;
  }
  if (rate_reached_) entries_left_ = 0;
}

void Dispatcher::go_on_after(std::int64_t ns) {
  // Not woken more often, however high the rate: what has come together by then goes at once.
  constexpr std::int64_t kShortestNs = 5'000'000;
  if (pacing_) return;
  pacing_ = true;
  if (!pace_timer_) pace_timer_.emplace(env_.shard.executor());
  pace_timer_->expires_after(std::chrono::nanoseconds(std::max(ns, kShortestNs)));
  pace_timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    auto self = weak.lock();
    if (!self || cancelled) return;
    self->pacing_ = false;
    self->schedule();
  });
}

void Dispatcher::rates_changed() {
  if (!pacing_) return;
  pacing_ = false;
  pace_timer_->cancel();
  schedule();
}

std::vector<Entry>& Dispatcher::batch() {
  thread_local std::vector<Entry> entries;
  return entries;
}

std::optional<Dispatcher::Source> Dispatcher::arrived() const {
  if (arrived_.empty()) return std::nullopt;
  return arrived_source_;
}

bool Dispatcher::readable(Position from) const {
  return from <= env_.ledger.last_confirmed() && from <= env_.topic.max_read_position();
}

void Dispatcher::transaction_ended(std::span<const AckedMessage>, bool committed) {
  if (!committed) rewind();
}

// Reads know nothing of transactions: what they bring may go beyond what is readable.
void Dispatcher::cut_unreadable(std::vector<Entry>& entries) const {
  const Position last = env_.topic.max_read_position();
  while (!entries.empty() && entries.back().position > last) entries.pop_back();
}

bool Dispatcher::fetch(Source source, Position from, std::size_t max_entries) {
  std::vector<Entry>& out = batch();
  out.clear();
  if (!arrived_.empty() && arrived_source_ == source && arrived_from_ <= from &&
      from <= arrived_.back().position) {
    auto it = std::partition_point(arrived_.begin(), arrived_.end(),
                                   [&](const Entry& entry) { return entry.position < from; });
    out.insert(out.end(), std::make_move_iterator(it), std::make_move_iterator(arrived_.end()));
    arrived_.clear();
    cut_unreadable(out);
    return !out.empty();
  }
  if (read_cached(source, from, max_entries, out) > 0) {
    cut_unreadable(out);
    return !out.empty();
  }
  if (!reading_ && !retrying_) start_read(source, from, max_entries);
  return false;
}

std::size_t Dispatcher::read_cached(Source source, Position from, std::size_t max_entries,
                                    std::vector<Entry>& out) {
  const std::size_t max_bytes = env_.config.max_read_size_bytes;
  if (source.kind == Source::Kind::Compacted)
    return env_.compacted->read_cached(from, max_entries, max_bytes, out);
  return env_.ledger.read_cached(from, max_entries, max_bytes, out);
}

Task<Result<std::vector<Entry>>> Dispatcher::read(Source source, Position from,
                                                  std::size_t max_entries) {
  const std::size_t max_bytes = env_.config.max_read_size_bytes;
  if (source.kind == Source::Kind::Compacted)
    return env_.compacted->read(from, max_entries, max_bytes);
  return env_.ledger.read(from, max_entries, max_bytes);
}

void Dispatcher::start_read(Source source, Position from, std::size_t max_entries) {
  reading_ = spawn(env_.shard, env_.gate,
                   [self = shared_from_this(), generation = generation_, source, from,
                    max_entries]() -> Task<void> {
                     auto result = co_await self->read(source, from, max_entries);
                     self->read_done(generation, source, from, std::move(result));
                   });
}

void Dispatcher::read_done(std::uint64_t generation, Source source, Position from,
                           Result<std::vector<Entry>> result) {
  reading_ = false;
  if (stopped_) return;
  if (generation == generation_) {
    if (!result) {
      retry_later(result.status());
      return;
    }
    retry_after_ = Millis{0};
    arrived_ = std::move(result).value();
    arrived_source_ = source;
    arrived_from_ = from;
  }
  schedule();
}

void Dispatcher::retry_later(const Status& error) {
  ++env_.counters.read_errors;
  retry_after_ = retry_after_.count() == 0 ? env_.config.read_retry_min
                                           : std::min(retry_after_ * 2, env_.config.read_retry_max);
  GM_LOG_WARN("{}: subscription {} cannot read on from {}: {}; next try in {} ms",
              env_.topic.name().full(), env_.subscription, read_position_.to_string(),
              error.to_string(), retry_after_.count());
  retrying_ = true;
  if (!retry_timer_) retry_timer_.emplace(env_.shard.executor());
  retry_timer_->expires_after(retry_after_);
  retry_timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    auto self = weak.lock();
    if (!self || cancelled) return;
    self->retrying_ = false;
    self->schedule();
  });
}

Position Dispatcher::next_from_log() {
  read_position_ = env_.cursor.next_unacked(read_position_);
  return read_position_;
}

std::optional<EntryMetadata> Dispatcher::admit_entry(const Entry& entry) {
  auto metadata = parse_entry_metadata(entry.data.span());
  if (metadata && !metadata->is_marker() &&
      !(metadata->txn && env_.topic.is_aborted(*metadata->txn))) {
    return std::move(metadata).value();
  }
  if (!metadata && env_.counters.corrupt_entries++ == 0) {
    GM_LOG_ERROR("{}: entry {} has no readable metadata ({}); subscription {} passes over it",
                 env_.topic.name().full(), entry.position.to_string(), metadata.status().message(),
                 env_.subscription);
  }
  env_.cursor.ack(entry.position, entry.messages);
  return std::nullopt;
}

Dispatcher::Remaining Dispatcher::remaining(const Entry& entry) const {
  const std::uint32_t all = std::max<std::uint32_t>(entry.messages, 1);
  const AckSet* left = env_.config.batch_index_ack ? env_.cursor.ack_set(entry.position) : nullptr;
  if (!env_.transaction_acks.empty()) {
    thread_local AckSet reduced;
    reduced.clear();
    if (left != nullptr) reduced = *left;
    if (env_.transaction_acks.reduce(entry.position, reduced)) left = &reduced;
  }
  if (left == nullptr) return {all, {}};
  std::uint32_t count = 0;
  for (const std::uint64_t word : *left) count += static_cast<std::uint32_t>(std::popcount(word));
  return {std::min(count, all), *left};
}

void Dispatcher::send(Consumer& consumer, const Entry& entry, const Remaining& remaining) {
  // Counts and epochs belong to different types, as in Pulsar: who rewinds has no counts.
  const bool counted = type_ == SubscriptionType::Shared || type_ == SubscriptionType::KeyShared;
  const std::uint32_t* redelivered =
      counted && !env_.redeliveries.empty() ? env_.redeliveries.find(entry.position) : nullptr;
  Delivery delivery;
  delivery.consumer_id = consumer.id();
  delivery.position = entry.position;
  delivery.partition = partition_;
  delivery.redelivery_count = redelivered == nullptr ? 0 : *redelivered;
  delivery.ack_set = remaining.ack_set;
  if (!counted) delivery.consumer_epoch = consumer.epoch();
  consumer.send(delivery, entry.data, remaining.messages, turn_ms_);
  spend(entry.data.size());
  if (paced_) pay_rates(remaining.messages, entry.data.size());
  SubscriptionCounters& counters = env_.counters;
  counters.messages_out.add(remaining.messages);
  counters.bytes_out.add(static_cast<std::int64_t>(entry.data.size()));
  if (redelivered != nullptr) counters.redelivered.add(remaining.messages);
  counters.last_consumed_ms = turn_ms_;
}

bool Dispatcher::ack_in_cursor(const AckedMessage& message, std::uint32_t batch_size,
                               std::uint32_t* newly) {
  if (batch_size == 0) batch_size = message.batch_size;
  if (message.remaining.empty()) {
    env_.cursor.ack(message.position, batch_size);
    return true;
  }
  *newly = 0;
  if (!env_.config.batch_index_ack) return false;
  return env_.cursor.ack_partly(message.position, message.remaining, batch_size, newly);
}

void Dispatcher::announce_end_of_topic() {
  if (!env_.ledger.terminated() || env_.cursor.backlog_entries() != 0) return;
  for (auto& consumer : consumers_) {
    // Other clients close their connection when they see this command.
    if (consumer->told_end_of_topic || !consumer->outbox().peer().is_java()) continue;
    consumer->told_end_of_topic = true;
    consumer->outbox().send_reached_end_of_topic(consumer->id());
  }
}

WaitReason Dispatcher::why_waiting(const Consumer& consumer) const {
  if (consumer.permits() <= 0) return WaitReason::NoPermits;
  return consumer.outbox().writable() ? WaitReason::None : WaitReason::ClientNotReading;
}

WaitReason Dispatcher::engine_reason() const {
  if (stopped_) return WaitReason::Stopped;
  if (consumers_.empty()) return WaitReason::NoConsumer;
  if (scheduled() || turn_posted_) return WaitReason::TurnScheduled;
  if (reading_) return WaitReason::ReadInFlight;
  if (retrying_) return WaitReason::ReadRetry;
  if (pacing_) return WaitReason::DispatchRate;
  return WaitReason::None;
}

std::shared_ptr<Consumer> Dispatcher::take_out(Consumer& consumer) {
  auto it = std::find_if(consumers_.begin(), consumers_.end(),
                         [&](const auto& other) { return other.get() == &consumer; });
  if (it == consumers_.end()) return nullptr;
  auto taken = std::move(*it);
  consumers_.erase(it);
  taken->detach();
  return taken;
}

void Dispatcher::measure(SubscriptionNumbers& numbers) const {
  numbers.consumer_count = consumers_.size();
  numbers.unacked_messages = unacked_messages();
  numbers.msg_delayed = static_cast<std::int64_t>(delayed());
}

void Dispatcher::describe(SubscriptionStats& stats) const {
  stats.type = type_;
  if (const Consumer* active = active_consumer()) stats.active_consumer_name = active->name();
}

void Dispatcher::watch(std::int64_t now) {
  for (auto& consumer : consumers_) consumer->tick(now);
  if (why_waiting() != WaitReason::None) return;
  ++env_.counters.stalls;
  std::string consumers;
  for (auto& consumer : consumers_) {
    consumers += fmt::format(" [{} permits {} unacked {} parked {} writable {}]", consumer->name(),
                             consumer->permits(), consumer->pending.messages(),
                             consumer->parked.size(), consumer->outbox().writable());
  }
  GM_LOG_ERROR(
      "{}: subscription {} ({}) stood still without a reason: reads at {}, first unacked {}, last "
      "entry "
      "{}, backlog {}, consumers{}; going on",
      env_.topic.name().full(), env_.subscription, to_string(type_), read_position_.to_string(),
      env_.cursor.first_unacked().to_string(), env_.ledger.last_confirmed().to_string(),
      env_.cursor.backlog_entries(), consumers);
  schedule();
}

}  // namespace geminga
