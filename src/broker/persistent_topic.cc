#include "broker/persistent_topic.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "broker/compaction_subscription.h"
#include "broker/persistent_subscription.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace {

constexpr char kEpochProperty[] = "pulsar.topic.epoch";
constexpr std::uint64_t kNoHighest = ~std::uint64_t{0};

// Cursors of the broker's own; no client subscribes to them.
bool is_internal_cursor(const std::string& name) {
  return name == "pulsar.dedup" || name == TransactionBuffer::kCursor ||
         name == kCompactionCursor || name.starts_with("pulsar.repl");
}

}  // namespace

PersistentTopic::PersistentTopic(PersistentTopicEnv env, TopicName name)
    : env_(std::move(env)),
      name_(std::move(name)),
      producers_(name_.full(), env_.shard, gate_,
                 [this](std::uint64_t epoch) -> Task<Status> { return store_epoch(epoch); }) {
  producers_.set_liveness_timeout(Millis(env_.config.connection_liveness_check_timeout_millis));
}

PersistentTopic::~PersistentTopic() { env_.shard.forget(*this); }

Task<Result<std::shared_ptr<PersistentTopic>>> PersistentTopic::open(PersistentTopicEnv env,
                                                                     TopicName name,
                                                                     TopicSettings settings,
                                                                     bool create_if_missing) {
  auto topic = std::make_shared<PersistentTopic>(std::move(env), std::move(name));
  ManagedLedgerEnv ledger_env;
  ledger_env.shard = &topic->env_.shard;
  ledger_env.ledgers = &topic->env_.ledgers;
  ledger_env.metadata = &topic->env_.metadata;
  Result<std::unique_ptr<ManagedLedger>> ledger =
      co_await open_managed_ledger(ledger_env, topic->name_.managed_ledger_name(), settings.ledger,
                                   topic.get(), create_if_missing);
  if (ledger.is(ErrorCode::NotFound)) {
    co_return Status::TopicNotFound(fmt::format("Topic {} does not exist", topic->name_.full()));
  }
  if (!ledger) co_return ledger.status();
  topic->ledger_ = std::move(*ledger);
  topic->settings_ = settings;
  topic->producers_.set_limit(static_cast<std::size_t>(settings.max_producers));
  topic->apply_rates();
  // Before anything can be trimmed.
  Status ready = co_await topic->open_stamp();
  if (ready) ready = co_await topic->adopt_cursors();
  // It asks the subscriptions what is still needed.
  if (ready) ready = co_await topic->load_delayed_index();
  if (!ready) {
    if (topic->delayed_ != nullptr) co_await topic->delayed_->close();
    co_await topic->ledger_->close();
    co_return ready;
  }
  co_return topic;
}

Task<Status> PersistentTopic::open_stamp() {
  GM_CO_ASSIGN_OR_RETURN(const EntryStampParts parts,
                         parse_entry_stamp(env_.config.broker_entry_metadata_interceptors));
  GM_CO_ASSIGN_OR_RETURN(stamp_, co_await EntryStamp::open(*ledger_, parts));
  co_return Status::ok();
}

void PersistentTopic::add_properties(std::map<std::string, std::string>& properties) {
  if (stamp_ != nullptr) stamp_->keep(properties);
}

void PersistentTopic::make_compaction() {
  CompactorOptions options;
  options.retain_null_key = env_.config.topic_compaction_retain_null_key;
  options.partition = name_.partition_index();
  options.is_aborted = [this](const TxnId& txn) { return is_aborted(txn); };
  compaction_ = std::make_unique<TopicCompaction>(
      TopicCompaction::Env{env_.shard, env_.ledgers, *ledger_, gate_, name_.full(), options,
                           [this](std::shared_ptr<ManagedCursor> cursor) {
                             subscriptions_[kCompactionCursor] =
                                 make_compaction_subscription(*compaction_, std::move(cursor));
                           },
                           [this] { return max_read_position(); }});
}

// Where a threshold says that the topic will be compacted, nothing is trimmed before.
void PersistentTopic::hold_log_for_compaction() {
  if (settings_.compaction_threshold <= 0 || ledger_->cursor(kCompactionCursor) != nullptr) return;
  spawn(env_.shard, gate_, [self = shared_from_this()]() -> Task<void> {
    const Status held = co_await self->compaction_->hold_log();
    if (!held) GM_LOG_WARN("{}: its compaction's cursor: {}", self->name_.full(), held.to_string());
  });
}

void PersistentTopic::compact_if_due() {
  if (!closing()) compaction_->start_if_over(settings_.compaction_threshold);
}

Task<Status> PersistentTopic::adopt_cursors() {
  make_compaction();
  const auto& properties = ledger_->properties();
  if (const auto epoch = properties.find(kEpochProperty); epoch != properties.end()) {
    producers_.restore_epoch(std::strtoull(epoch->second.c_str(), nullptr, 10));
  }
  if (ledger_->cursor(std::string(TransactionBuffer::kCursor)) != nullptr) {
    GM_CO_ASSIGN_OR_RETURN(transactions_, co_await TransactionBuffer::open(*ledger_));
  }
  for (const auto& cursor : ledger_->cursors()) {
    if (is_internal_cursor(cursor->name())) continue;
    auto made = make_subscription(cursor);
    subscriptions_[cursor->name()] = made;
    if (env_.transaction_is_open) GM_CO_RETURN_IF_ERROR(co_await made->recover_transactions());
  }
  watch_transactions();
  if (settings_.deduplication) {
    GM_CO_ASSIGN_OR_RETURN(deduplication_,
                           co_await Deduplication::open(*ledger_, deduplication_options()));
  } else if (ledger_->cursor(std::string(Deduplication::kCursor)) != nullptr) {
    // It would hold back trimming for ever.
    GM_CO_RETURN_IF_ERROR(co_await ledger_->delete_cursor(std::string(Deduplication::kCursor)));
  }
  if (auto cursor = ledger_->cursor(kCompactionCursor)) {
    subscriptions_[kCompactionCursor] =
        make_compaction_subscription(*compaction_, std::move(cursor));
  }
  hold_log_for_compaction();
  // The last: it may begin a run, for which nothing waits if the topic cannot be opened.
  co_return co_await compaction_->open();
}

void PersistentTopic::apply(const TopicSettings& settings) {
  if (closing()) return;
  settings_ = settings;
  producers_.set_limit(static_cast<std::size_t>(settings.max_producers));
  ledger_->set_config(settings.ledger);
  for (const auto& [name, subscription] : subscriptions_) {
    subscription->limit_unacked(settings.max_unacked_per_consumer,
                                settings.max_unacked_per_subscription);
  }
  apply_rates();
  if (!settings.delayed_delivery && delayed_ != nullptr) delayed_->clear();
  hold_log_for_compaction();
  if (settings.deduplication == (deduplication_ != nullptr)) return;
  spawn(env_.shard, gate_, [self = shared_from_this()]() -> Task<void> {
    const Status switched = co_await self->switch_deduplication();
    if (!switched) {
      GM_LOG_WARN("{}: switching deduplication: {}", self->name_.full(), switched.to_string());
    }
  });
}

Deduplication::Options PersistentTopic::deduplication_options() {
  const BrokerConfig& config = env_.config;
  Deduplication::Options options;
  options.entries_interval = config.broker_deduplication_entries_interval;
  options.max_producers =
      static_cast<std::size_t>(config.broker_deduplication_max_number_of_producers);
  options.inactive_ms = config.broker_deduplication_producer_inactivity_timeout_minutes * 60'000;
  options.connected = [this](const std::string& name) { return producers_.all().contains(name); };
  return options;
}

void PersistentTopic::snapshot_if_due(std::int64_t now) {
  if (deduplication_ != nullptr && !closing())
    deduplication_->snapshot_if_due(settings_.deduplication_snapshot_seconds * 1000, now);
}

// As the settings want it now.
Task<Status> PersistentTopic::switch_deduplication() {
  const auto lock = co_await creating_.lock();
  const bool wanted = settings_.deduplication;
  if (wanted == (deduplication_ != nullptr)) co_return Status::ok();
  if (!wanted) {
    deduplication_.reset();
    co_return co_await ledger_->delete_cursor(std::string(Deduplication::kCursor));
  }
  auto opened = co_await Deduplication::open(*ledger_, deduplication_options());
  if (!opened) co_return opened.status();
  deduplication_ = std::move(*opened);
  // What is under way counts, too.
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    Pending& pending = pending_[i];
    if (pending.refused != nullptr || pending.producer == nullptr) continue;
    (void)deduplication_->check(pending.producer->name(),
                                static_cast<std::int64_t>(pending.sequence_id),
                                pending.last_of_batch());
    pending.deduplicate = true;
  }
  co_return Status::ok();
}

Status PersistentTopic::not_available() {
  return Status::ServiceNotReady("Topic is temporarily unavailable");
}

Status PersistentTopic::ready_to_serve() const {
  return closing() ? not_available() : Status::ok();
}

Task<Status> PersistentTopic::store_epoch(std::uint64_t epoch) {
  auto properties = ledger_->properties();
  properties[kEpochProperty] = std::to_string(epoch);
  co_return co_await ledger_->set_properties(std::move(properties));
}

// --- producers ---

Task<Result<ProducerGrant>> PersistentTopic::add_producer(ProducerRequest request) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  GM_CO_RETURN_IF_ERROR(ready_to_serve());
  if (terminated()) co_return Status::TopicTerminated("Topic was already terminated");
  if (settings_.encryption_required && !request.encrypted) {
    co_return Status::Metadata(fmt::format("Encryption is required in {}", name_.full()));
  }
  if (!env_.ledgers.writable()) {
    co_return Status::ProducerBlockedQuotaExceededException(
        "the disk of the broker is full: publishing goes on when there is room again");
  }
  GM_CO_RETURN_IF_ERROR(room_in_backlog());
  if (!request.initial_subscription.empty() &&
      subscription(request.initial_subscription) == nullptr) {
    if (!settings_.auto_subscription_creation) {
      co_return Status::NotAllowed(
          "Could not create the initial subscription due to the auto subscription creation "
          "is not allowed.");
    }
    const Status created =
        co_await create_subscription(request.initial_subscription, Position::earliest(), {});
    if (!created && !created.is(ErrorCode::AlreadyExists)) co_return created;
  }
  auto producer = std::make_shared<Producer>(std::move(request));
  Result<ProducerGrant> grant = co_await producers_.add(producer);
  // Closed while it was added: close_all() may have come too early for this one.
  if (grant && closing()) {
    producer->set_state(Producer::State::Closed);
    producers_.remove(producer);
    co_return not_available();
  }
  if (grant && deduplication_ != nullptr) {
    grant->last_sequence_id = deduplication_->last_pushed(producer->name());
  }
  co_return grant;
}

Task<void> PersistentTopic::remove_producer(std::shared_ptr<Producer> producer) {
  auto self = shared_from_this();
  // A client that closes gets its last receipts first; for one that is gone nobody waits.
  if (producer->outbox().connected()) co_await producer->drained();
  if (producer->state() != Producer::State::Fenced) producer->set_state(Producer::State::Closed);
  producers_.remove(producer);
}

// --- publishing ---

void PersistentTopic::publish(std::vector<PublishItem>& items) {
  if (pacer_ != nullptr && !pacer_->idle() && !closing()) return pacer_->offer(items);
  publish_now(items);
}

void PersistentTopic::publish_now(std::vector<PublishItem>& items) {
  const std::int64_t now = monotonic_ns();
  for (PublishItem& item : items) {
    Producer& producer = *item.producer;
    if (producer.state() != Producer::State::Active || closing()) {
      if (producer.state() == Producer::State::Fenced) {
        producer.outbox().close_connection("SEND of a producer that was fenced out");
      }
      producer.outbox().forget_publishes(1);
      continue;
    }
    if (settings_.encryption_required && item.refused.is_ok()) refuse_unencrypted(item);
    if (settings_.max_message_size > 0) refuse_too_large(item);
    if (item.txn && item.refused.is_ok()) item.refused = check_transaction(item);
    if (item.deliver_at_time != 0 && settings_.max_delivery_delay_ms > 0) refuse_too_late(item);
    producer.publish_started();
    Pending pending;
    pending.producer = std::move(item.producer);
    pending.sequence_id = item.sequence_id;
    pending.highest_sequence_id = item.highest_sequence_id;
    pending.has_highest = item.has_highest_sequence_id;
    pending.deliver_at_time = item.deliver_at_time;
    pending.messages = item.messages;
    if (item.refused.is_ok() && deduplication_ != nullptr && !item.is_marker)
      deduplicate(item, pending);
    if (pending.refused != nullptr || pending.duplicate) {
      pending_.push_back(std::move(pending));
    } else if (item.refused.is_ok()) {
      producer.count(item.messages, item.entry.size(), item.is_chunk, now);
      messages_in_ += item.messages;
      bytes_in_ += static_cast<std::int64_t>(item.entry.size());
      message_rate_.add(item.messages, now);
      byte_rate_.add(static_cast<std::int64_t>(item.entry.size()), now);
      if (item.txn) {
        pending.part = TxnPart::Message;
        pending.txn = *item.txn;
        transactions_->message_appended(pending.txn);
      }
      pending_.push_back(std::move(pending));
      if (stamp_ != nullptr) item.entry = stamp_->stamp(item.entry, item.messages, now_ms());
      ledger_->append(item.entry, item.messages);
    } else {
      pending.refused = std::make_unique<Status>(std::move(item.refused));
      pending_.push_back(std::move(pending));
    }
  }
  items.clear();
  answer_unstored();
}

void PersistentTopic::refuse_unencrypted(PublishItem& item) {
  const Result<EntryMetadata> metadata = parse_entry_metadata(item.entry.span());
  if (!metadata || !metadata->is_encrypted())
    item.refused = Status::Metadata("Messages must be encrypted");
}

// Of a chunked message only the last chunk counts: its earlier ones have the same sequence id.
void PersistentTopic::deduplicate(PublishItem& item, Pending& pending) {
  if (item.is_chunk) {
    const Result<EntryMetadata> metadata = parse_entry_metadata(item.entry.span());
    if (metadata && metadata->is_chunk() && !metadata->is_last_chunk()) return;
  }
  const auto first = static_cast<std::int64_t>(pending.sequence_id);
  switch (deduplication_->check(pending.producer->name(), first, pending.last_of_batch())) {
    case Deduplication::Verdict::New: pending.deduplicate = true; break;
    case Deduplication::Verdict::Duplicate:
      pending.duplicate = true;
      duplicates_ += item.messages;
      break;
    case Deduplication::Verdict::Partly: {
      pending.deduplicate = true;
      const std::uint32_t sent = item.messages;
      if (const Status kept = deduplication_->drop_stored(pending.producer->name(), item); !kept) {
        pending.duplicate = true;  // as Pulsar sees it: it begins with one that is stored
        duplicates_ += item.messages;
        pending.deduplicate = false;
        deduplication_->failed(pending.producer->name());
      } else {
        duplicates_ += sent - item.messages;
      }
      break;
    }
    case Deduplication::Verdict::Unknown:
      pending.refused = std::make_unique<Status>(
          Status::Persistence("Cannot determine whether the message is a duplicate at this time"));
      break;
  }
}

void PersistentTopic::persisted(Position position, const Status& status) {
  const Pending pending = std::move(pending_.front());
  pending_.pop_front();
  if (transactions_ != nullptr) tell_transactions(pending, position, status);
  if (pending.producer == nullptr) {
    if (status.is_ok()) {
      env_.shard.defer(*this);
    } else {
      write_failed(status);
    }
    one_less_pending();
    return answer_unstored();
  }
  Producer& producer = *pending.producer;
  if (status.is_ok()) {
    producer.outbox().send_receipt(producer.id(), pending.sequence_id,
                                   pending.has_highest ? pending.highest_sequence_id : kNoHighest,
                                   position);
    if (pending.deduplicate && deduplication_ != nullptr) {
      deduplication_->persisted(producer.name(), pending.last_of_batch(), position);
    }
    // Indexed while it is known: subscriptions then need not read it before its time.
    if (pending.deliver_at_time != 0 && anyone_waits_for_due()) {
      (void)hold_if_early(pending.deliver_at_time, position);
    }
    env_.shard.defer(*this);
  } else {
    // No SEND_ERROR: the producer is closed, and its client sends again what got no receipt.
    producer.outbox().forget_publishes(1);
    if (pending.deduplicate && deduplication_ != nullptr) deduplication_->failed(producer.name());
    write_failed(status);
  }
  answered(producer);
  answer_unstored();
}

// Items at the head of the queue that were not stored have their turn.
void PersistentTopic::answer_unstored() {
  while (!pending_.empty() && (pending_.front().refused != nullptr || pending_.front().duplicate)) {
    const Pending pending = std::move(pending_.front());
    pending_.pop_front();
    Producer& producer = *pending.producer;
    if (pending.refused != nullptr) {
      producer.outbox().send_error(
          producer.id(), static_cast<std::uint64_t>(pending.last_sequence_id()), *pending.refused);
    } else {
      producer.outbox().send_receipt(producer.id(), pending.sequence_id,
                                     pending.has_highest ? pending.highest_sequence_id : kNoHighest,
                                     Position{-1, -1});
    }
    answered(producer);
  }
}

void PersistentTopic::answered(Producer& producer) {
  producer.publish_done();
  one_less_pending();
}

void PersistentTopic::one_less_pending() {
  if (pending_.empty() && drained_) std::exchange(drained_, nullptr)->set();
}

void PersistentTopic::write_failed(const Status& status) {
  if (failed_) return;
  if (status.is(ErrorCode::DiskFull) || status.is(ErrorCode::TopicTerminated)) {
    producers_.close_all();
    return;
  }
  failed_ = true;
  GM_LOG_ERROR("{}: writing to the log failed, the topic is reopened: {}", name_.full(),
               status.to_string());
  producers_.close_all();
  env_.failed(name_);
}

Task<void> PersistentTopic::publishes_drained() {
  if (pending_.empty()) co_return;
  if (!drained_) drained_ = std::make_shared<Event>();
  auto event = drained_;
  co_await event->wait();
}

void PersistentTopic::run_deferred() {
  if (settings_.backlog_size.limit >= 0) watch_backlog_size();
  for (const auto& [name, subscription] : subscriptions_) subscription->entries_available();
}

// --- the log ---

Task<Result<Topic::LastMessage>> PersistentTopic::last_message_id() {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  Position at = ledger_->last_confirmed();
  if (const Position readable = max_read_position(); at > readable) {
    at = ledger_->previous({readable.ledger, readable.entry + 1});
  }
  // Markers and messages of aborted transactions are never delivered: the last message is the one
  // before them.
  while (at.entry >= 0 && ledger_->exists(at)) {
    std::vector<Entry> entries;
    if (ledger_->read_cached(at, 1, 1, entries) == 0) {
      GM_CO_ASSIGN_OR_RETURN(entries, co_await ledger_->read(at, 1, 1));
    }
    if (entries.empty() || entries[0].position != at) break;
    const Result<EntryMetadata> metadata = parse_entry_metadata(entries[0].data.span());
    if (metadata && (metadata->is_marker() || (metadata->txn && is_aborted(*metadata->txn)))) {
      at = ledger_->previous(at);
      continue;
    }
    LastMessage last;
    last.position = at;
    if (metadata && metadata->is_batch) last.batch_index = metadata->num_messages - 1;
    co_return last;
  }
  co_return LastMessage();
}

Task<Result<Position>> PersistentTopic::terminate() {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  Result<Position> last = co_await ledger_->terminate();
  if (!last) co_return last;
  producers_.close_all();
  for (const auto& [name, subscription] : subscriptions_) subscription->entries_available();
  GM_LOG_INFO("{}: terminated at {}", name_.full(), last->to_string());
  co_return last;
}

Task<void> PersistentTopic::disconnect_all(bool deleting) {
  // What is in the log's queue still gets its receipt; what comes now is dropped, and sent again by
  // its client.
  closing_ = true;
  if (transaction_timer_) transaction_timer_->cancel();
  if (pacer_ != nullptr) pacer_->drop();
  compaction_->stop();
  co_await publishes_drained();
  producers_.close_all();
  const auto subscriptions = subscriptions_;
  for (const auto& [name, subscription] : subscriptions) co_await subscription->close(deleting);
  co_await gate_.close();
  env_.shard.forget(*this);
}

Task<Status> PersistentTopic::close() {
  auto self = shared_from_this();
  co_await disconnect_all(false);
  if (deduplication_ != nullptr) deduplication_->snapshot();
  if (transactions_ != nullptr) transactions_->snapshot();
  if (delayed_ != nullptr) co_await delayed_->close();
  co_return co_await ledger_->close();
}

Task<Status> PersistentTopic::remove(bool force) {
  auto self = shared_from_this();
  GM_CO_RETURN_IF_ERROR(ready_to_serve());
  if (!force) {
    if (producers_.size() > 0) {
      co_return Status::PreconditionFailed(fmt::format("Topic has {} connected producers/consumers",
                                                       producers_.size() + consumer_count()));
    }
    if (consumer_count() > 0) {
      co_return Status::PreconditionFailed(
          fmt::format("Topic has subscriptions with {} connected consumers", consumer_count()));
    }
  }
  co_await disconnect_all(true);
  if (delayed_ != nullptr) co_await delayed_->remove();
  Status first;
  for (const auto& [name, subscription] : subscriptions_) {
    const Status removed = co_await subscription->remove_transactions();
    if (!removed && first) first = removed;
  }
  const Status removed = co_await ledger_->remove();
  co_return first ? removed : first;
}

}  // namespace geminga
