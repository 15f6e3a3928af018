#include "broker/transaction_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "PulsarTransactionMetadata.pb.h"
#include "base/clock.h"
#include "base/log.h"

namespace geminga {

namespace {

namespace proto = pulsar::txnlog;
using Record = proto::TransactionMetadataEntry;

bool is_ending(TxnStatus status) {
  return status == TxnStatus::Committing || status == TxnStatus::Aborting;
}

}  // namespace

std::string_view to_string(TxnStatus status) {
  switch (status) {
    case TxnStatus::Open: return "OPEN";
    case TxnStatus::Committing: return "COMMITTING";
    case TxnStatus::Committed: return "COMMITTED";
    case TxnStatus::Aborting: return "ABORTING";
    case TxnStatus::Aborted: return "ABORTED";
  }
  return "?";
}

std::string TransactionCoordinator::log_name(std::uint64_t id) {
  return fmt::format("pulsar/system/persistent/__transaction_log_{}", id);
}

TransactionCoordinator::TransactionCoordinator(TransactionCoordinatorEnv env, std::uint64_t id)
    : env_(env), id_(id), timer_(env.shard.executor()) {}

Task<Result<std::shared_ptr<TransactionCoordinator>>> TransactionCoordinator::open(
    TransactionCoordinatorEnv env, std::uint64_t id) {
  auto made = std::make_shared<TransactionCoordinator>(env, id);
  made->stats_.recover_start_ms = now_ms();
  auto log = co_await InternalLog::open(env.ledger, log_name(id), std::string(kCursor),
                                        ManagedLedgerConfig(), true);
  if (!log) co_return log.status();
  made->log_ = std::move(*log);
  UniqueFunction<Status(Position, std::string_view)> each =
      [raw = made.get()](Position position, std::string_view record) {
        return raw->replayed(position, record);
      };
  const Status replayed = co_await made->log_->replay(std::move(each));
  if (!replayed) {
    (void)co_await made->log_->close();  // what failed before is told
    co_return replayed.with_context(log_name(id));
  }
  const auto& properties = made->log_->ledger().properties();
  if (const auto at = properties.find(std::string(kIdProperty)); at != properties.end()) {
    made->next_ =
        std::max<std::uint64_t>(made->next_, std::strtoull(at->second.c_str(), nullptr, 10) + 1);
  }
  made->reserved_ = made->next_;
  made->stats_.recover_end_ms = now_ms();
  for (const auto& [txn, state] : made->txns_) {
    if (is_ending(state.status)) {
      made->spawn_finish(txn);
    } else {
      made->watch_deadline(txn, state);
    }
  }
  made->arm_timer();
  co_return made;
}

Status TransactionCoordinator::replayed(Position position, std::string_view bytes) {
  Record record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status::Corruption(
        fmt::format("record {} is no TransactionMetadataEntry", position.to_string()));
  }
  const std::uint64_t txn = record.txnid_least_bits();
  next_ = std::max({next_, txn + 1, record.max_local_txn_id() + 1});
  if (record.metadata_op() == Record::NEW) {
    Txn& state = txns_[txn];
    state.opened_ms = static_cast<std::int64_t>(record.start_time());
    state.timeout_ms = static_cast<std::int64_t>(record.timeout_ms());
    state.records.push_back(position);
    return Status::ok();
  }
  const auto at = txns_.find(txn);
  if (at == txns_.end()) {
    // A crash came between forgetting the first and the last record of it.
    log_->forget(position);
    return Status::ok();
  }
  Txn& state = at->second;
  state.records.push_back(position);
  for (const std::string& topic : record.partitions()) state.topics.insert(topic);
  for (const auto& subscription : record.subscriptions()) {
    state.subscriptions.insert({subscription.topic(), subscription.subscription()});
  }
  if (record.metadata_op() != Record::UPDATE) return Status::ok();
  state.status = static_cast<TxnStatus>(record.new_status());
  if (state.status == TxnStatus::Committed || state.status == TxnStatus::Aborted) forget(txn);
  return Status::ok();
}

// --- requests ---

Status TransactionCoordinator::unavailable() const {
  return Status::TransactionCoordinatorNotFound(
      fmt::format("Transaction coordinator {} is being opened again", id_));
}

void TransactionCoordinator::fail(const Status& why) {
  if (failed_) return;
  failed_ = true;
  GM_LOG_ERROR("transaction coordinator {}: writing its log failed, it is opened again: {}", id_,
               why.to_string());
  for (auto& [txn, state] : txns_) {
    if (state.over != nullptr) state.over->set();
  }
  timer_.cancel();
  for (asio::steady_timer* pause : pauses_) pause->cancel();
}

// Until the property is durable again no id of the next piece is given.
Task<Status> TransactionCoordinator::reserve_ids() {
  const auto lock = co_await reserving_.lock();
  if (next_ < reserved_) co_return Status::ok();
  const std::uint64_t upto = next_ + kIdsAtOnce;
  auto properties = log_->ledger().properties();
  properties[std::string(kIdProperty)] = std::to_string(upto - 1);
  GM_CO_RETURN_IF_ERROR(co_await log_->ledger().set_properties(std::move(properties)));
  reserved_ = upto;
  co_return Status::ok();
}

Task<Result<TxnId>> TransactionCoordinator::begin(Millis timeout, std::string owner) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside || failed_) co_return unavailable();
  const std::int64_t most = env_.max_active > 0 ? env_.max_active : kMostActive;
  if (static_cast<std::int64_t>(txns_.size()) >= most) {
    co_return Status::TooManyRequests(
        fmt::format("New txn op reach max active txn! tcId : {}", id_));
  }
  while (next_ >= reserved_) GM_CO_RETURN_IF_ERROR(co_await reserve_ids());
  const std::uint64_t txn = next_++;
  Txn& state = txns_[txn];
  state.opened_ms = now_ms();
  state.timeout_ms = timeout.count();
  Record record;
  record.set_metadata_op(Record::NEW);
  record.set_timeout_ms(static_cast<std::uint64_t>(state.timeout_ms));
  record.set_start_time(static_cast<std::uint64_t>(state.opened_ms));
  record.set_last_modification_time(static_cast<std::uint64_t>(state.opened_ms));
  if (!owner.empty()) record.set_owner(owner);
  const Status written = co_await write(txn, record.SerializeAsString());
  if (!written) {
    txns_.erase(txn);
    co_return written;
  }
  ++stats_.created;
  watch_deadline(txn, txns_.at(txn));
  arm_timer();
  co_return TxnId{id_, txn};
}

Task<Status> TransactionCoordinator::write(std::uint64_t txn, std::string fields) {
  // What all records have.
  Record head;
  head.set_txnid_least_bits(txn);
  head.set_txnid_most_bits(id_);
  head.set_max_local_txn_id(next_ - 1);
  const auto appended = co_await log_->append(fields + head.SerializeAsString());
  if (!appended) {
    if (!InternalLog::is_refusal(appended.status())) fail(appended.status());
    co_return InternalLog::is_refusal(appended.status()) ? appended.status() : unavailable();
  }
  ++stats_.records_written;
  if (const auto at = txns_.find(txn); at != txns_.end()) at->second.records.push_back(*appended);
  co_return failed_ ? unavailable() : Status::ok();
}

Task<Status> TransactionCoordinator::write_status(std::uint64_t txn, TxnStatus from, TxnStatus to) {
  Record record;
  record.set_metadata_op(Record::UPDATE);
  record.set_expected_status(static_cast<proto::TxnStatus>(from));
  record.set_new_status(static_cast<proto::TxnStatus>(to));
  record.set_last_modification_time(static_cast<std::uint64_t>(now_ms()));
  co_return co_await write(txn, record.SerializeAsString());
}

Result<TransactionCoordinator::Iterator> TransactionCoordinator::find_open(std::uint64_t txn) {
  const auto at = txns_.find(txn);
  if (at == txns_.end()) {
    return Status::TransactionNotFound(
        fmt::format("The transaction with this txdID `{}`not found ", TxnId{id_, txn}.to_string()));
  }
  if (at->second.status != TxnStatus::Open) {
    return Status::InvalidTxnStatus(
        fmt::format("Expect Txn `{}` to be in OPEN status but it is in {} status",
                    TxnId{id_, txn}.to_string(), to_string(at->second.status)));
  }
  return at;
}

Task<Status> TransactionCoordinator::add_topics(std::uint64_t txn,
                                                std::vector<std::string> topics) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside || failed_) co_return unavailable();
  auto found = find_open(txn);
  if (!found) co_return found.status();
  for (const std::string& topic : topics) {
    GM_CO_RETURN_IF_ERROR(co_await env_.participants.prepare_topic(topic));
  }
  found = find_open(txn);  // it may have ended meanwhile
  if (!found) co_return found.status();
  Txn& state = (*found)->second;
  std::erase_if(topics, [&](const std::string& topic) { return state.topics.contains(topic); });
  if (topics.empty()) co_return Status::ok();
  if (state.topics.size() + topics.size() > kMostParticipants) {
    co_return Status::NotAllowed(
        fmt::format("A transaction has at most {} topics", kMostParticipants));
  }
  Record record;
  record.set_metadata_op(Record::ADD_PARTITION);
  record.set_last_modification_time(static_cast<std::uint64_t>(now_ms()));
  for (const std::string& topic : topics) record.add_partitions(topic);
  // In memory first: an end that is asked for before this is written must reach them.
  state.topics.insert(topics.begin(), topics.end());
  co_return co_await write(txn, record.SerializeAsString());
}

Task<Status> TransactionCoordinator::add_subscriptions(std::uint64_t txn,
                                                       std::vector<TxnSubscription> subscriptions) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside || failed_) co_return unavailable();
  auto found = find_open(txn);
  if (!found) co_return found.status();
  for (const TxnSubscription& subscription : subscriptions) {
    GM_CO_RETURN_IF_ERROR(co_await env_.participants.prepare_subscription(subscription));
  }
  found = find_open(txn);
  if (!found) co_return found.status();
  Txn& state = (*found)->second;
  std::erase_if(subscriptions, [&](const auto& subscription) {
    return state.subscriptions.contains(subscription);
  });
  if (subscriptions.empty()) co_return Status::ok();
  if (state.subscriptions.size() + subscriptions.size() > kMostParticipants) {
    co_return Status::NotAllowed(
        fmt::format("A transaction has at most {} subscriptions", kMostParticipants));
  }
  Record record;
  record.set_metadata_op(Record::ADD_SUBSCRIPTION);
  record.set_last_modification_time(static_cast<std::uint64_t>(now_ms()));
  for (const TxnSubscription& subscription : subscriptions) {
    auto* added = record.add_subscriptions();
    added->set_topic(subscription.topic);
    added->set_subscription(subscription.subscription);
  }
  state.subscriptions.insert(subscriptions.begin(), subscriptions.end());
  co_return co_await write(txn, record.SerializeAsString());
}

// --- ending ---

Task<Status> TransactionCoordinator::start_end(std::uint64_t txn, bool commit) {
  const auto found = find_open(txn);
  if (!found) co_return found.status();
  const TxnStatus to = commit ? TxnStatus::Committing : TxnStatus::Aborting;
  // Nobody may add to it, or end it in the other way, while this is being written.
  (*found)->second.status = to;
  (*found)->second.over = std::make_shared<Event>();
  deadlines_.erase({(*found)->second.opened_ms + (*found)->second.timeout_ms, txn});
  const Status written = co_await write_status(txn, TxnStatus::Open, to);
  if (!written) {
    const auto at = txns_.find(txn);
    if (at == txns_.end()) co_return written;
    if (!failed_) {  // refused, so it is open still
      at->second.status = TxnStatus::Open;
      watch_deadline(txn, at->second);
      arm_timer();
    }
    std::exchange(at->second.over, nullptr)->set();
    co_return written;
  }
  spawn_finish(txn);
  co_return Status::ok();
}

Task<Status> TransactionCoordinator::end(std::uint64_t txn, bool commit) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside || failed_) co_return unavailable();
  const TxnStatus wanted = commit ? TxnStatus::Committing : TxnStatus::Aborting;
  auto at = txns_.find(txn);
  if (at == txns_.end() || at->second.status != wanted) {
    GM_CO_RETURN_IF_ERROR(co_await start_end(txn, commit));
    at = txns_.find(txn);
  }
  if (at == txns_.end()) co_return Status::ok();  // done already
  if (failed_ || closing_) co_return unavailable();
  if (at->second.over == nullptr) at->second.over = std::make_shared<Event>();
  auto over = at->second.over;
  co_await over->wait();
  if (!txns_.contains(txn)) co_return Status::ok();
  co_return unavailable();
}

void TransactionCoordinator::spawn_finish(std::uint64_t txn) {
  spawn(env_.shard, gate_,
        [self = shared_from_this(), txn]() -> Task<void> { co_await self->finish(txn); });
}

Task<void> TransactionCoordinator::finish(std::uint64_t txn) {
  const auto begun = txns_.find(txn);
  if (begun == txns_.end()) co_return;
  const bool commit = begun->second.status == TxnStatus::Committing;
  const std::int64_t opened_ms = begun->second.opened_ms;
  auto topics = begun->second.topics;
  auto subscriptions = begun->second.subscriptions;
  Millis pause = env_.retry_min;
  for (;;) {
    if (failed_ || closing_) co_return;
    if (co_await tell_participants(txn, commit, topics, subscriptions)) {
      const TxnStatus from = commit ? TxnStatus::Committing : TxnStatus::Aborting;
      const TxnStatus to = commit ? TxnStatus::Committed : TxnStatus::Aborted;
      const Status written = co_await write_status(txn, from, to);
      if (written) break;
      if (failed_) co_return;
    }
    // Only close() and fail() wake it before the time.
    asio::steady_timer timer(env_.shard.executor(), pause);
    boost::system::error_code ignored;
    pauses_.insert(&timer);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    pauses_.erase(&timer);
    pause = std::min(pause * 2, env_.retry_max);
  }
  ++(commit ? stats_.committed : stats_.aborted);
  stats_.execution_time.record(now_ms() - opened_ms);
  forget(txn);
}

// True when all have confirmed; those who have are taken out of the sets.
Task<bool> TransactionCoordinator::tell_participants(std::uint64_t txn, bool commit,
                                                     std::set<std::string>& topics,
                                                     std::set<TxnSubscription>& subscriptions) {
  const TransactionParticipants::End end{{id_, txn}, commit, low_watermark()};
  struct Call {
    const std::string* topic = nullptr;
    const TxnSubscription* subscription = nullptr;
    Status outcome;
  };
  std::vector<Call> calls;
  for (const std::string& topic : topics) calls.push_back({&topic, nullptr, Status::ok()});
  for (const auto& subscription : subscriptions)
    calls.push_back({nullptr, &subscription, Status::ok()});
  constexpr std::size_t kAtOnce = 32;
  std::size_t next = 0;
  Gate running;
  for (std::size_t i = 0; i < std::min(calls.size(), kAtOnce); ++i) {
    spawn(env_.shard, running, [&]() -> Task<void> {
      while (next < calls.size()) {
        Call& call = calls[next++];
        ++stats_.participants_asked;
        if (call.topic != nullptr) {
          call.outcome = co_await env_.participants.end_on_topic(*call.topic, end);
        } else {
          call.outcome = co_await env_.participants.end_on_subscription(*call.subscription, end);
        }
        --stats_.participants_asked;
      }
    });
  }
  co_await running.close();
  for (const Call& call : calls) {
    if (!call.outcome) {
      GM_LOG_WARN("transaction {}: {} of {} is not possible yet and will be tried again: {}",
                  end.txn.to_string(), commit ? "commit" : "abort",
                  call.topic != nullptr
                      ? *call.topic
                      : call.subscription->topic + " / " + call.subscription->subscription,
                  call.outcome.to_string());
    }
  }
  std::set<std::string> topics_left;
  std::set<TxnSubscription> subscriptions_left;
  for (const Call& call : calls) {
    if (call.outcome) continue;
    if (call.topic != nullptr) {
      topics_left.insert(*call.topic);
    } else {
      subscriptions_left.insert(*call.subscription);
    }
  }
  topics = std::move(topics_left);
  subscriptions = std::move(subscriptions_left);
  co_return topics.empty() && subscriptions.empty();
}

void TransactionCoordinator::forget(std::uint64_t txn) {
  auto node = txns_.extract(txn);
  if (node.empty()) return;
  for (const Position record : node.mapped().records) log_->forget(record);
  if (node.mapped().over != nullptr) node.mapped().over->set();
}

// --- time ---

void TransactionCoordinator::watch_deadline(std::uint64_t txn, const Txn& state) {
  if (state.status == TxnStatus::Open) {
    deadlines_.insert({state.opened_ms + state.timeout_ms, txn});
  }
}

void TransactionCoordinator::arm_timer() {
  if (deadlines_.empty() || failed_ || closing_) return;
  const std::int64_t due = deadlines_.begin()->first;
  if (timer_due_ms_ != 0 && timer_due_ms_ <= due) return;
  timer_due_ms_ = due;
  // A wall clock that jumps is looked at again every minute.
  const std::int64_t wait = std::clamp<std::int64_t>(due - now_ms(), 0, 60'000);
  timer_.expires_after(Millis(wait));
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    auto self = weak.lock();
    if (!self || cancelled) return;
    self->timer_due_ms_ = 0;
    self->timer_fired();
  });
}

void TransactionCoordinator::timer_fired() {
  const std::int64_t now = now_ms();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const std::uint64_t txn = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    ++stats_.timed_out;
    GM_LOG_INFO("transaction {}: its time is up, it is aborted", TxnId{id_, txn}.to_string());
    spawn(env_.shard, gate_, [self = shared_from_this(), txn]() -> Task<void> {
      const Status started = co_await self->start_end(txn, false);
      if (!started && !started.is(ErrorCode::TransactionNotFound) &&
          !started.is(ErrorCode::InvalidTxnStatus) && !self->failed_) {
        GM_LOG_WARN("transaction {}: aborting it: {}", TxnId{self->id_, txn}.to_string(),
                    started.to_string());
      }
    });
  }
  arm_timer();
}

// --- what is known ---

std::int64_t TransactionCoordinator::low_watermark() const {
  return (txns_.empty() ? static_cast<std::int64_t>(next_)
                        : static_cast<std::int64_t>(txns_.begin()->first)) -
         1;
}

TransactionCoordinator::Info TransactionCoordinator::info_of(std::uint64_t txn,
                                                             const Txn& state) const {
  return {{id_, txn},       state.status, state.opened_ms,
          state.timeout_ms, state.topics, state.subscriptions};
}

std::optional<TransactionCoordinator::Info> TransactionCoordinator::info(std::uint64_t txn) const {
  const auto at = txns_.find(txn);
  if (at == txns_.end()) return std::nullopt;
  return info_of(txn, at->second);
}

std::vector<TransactionCoordinator::Info> TransactionCoordinator::open_longer_than(
    std::int64_t ms) const {
  const std::int64_t before = now_ms() - ms;
  std::vector<Info> found;
  for (const auto& [txn, state] : txns_) {
    if (state.opened_ms <= before) found.push_back(info_of(txn, state));
  }
  return found;
}

TransactionCoordinator::Stats TransactionCoordinator::stats() const {
  Stats stats = stats_;
  stats.least_bits = next_ == 0 ? 0 : next_ - 1;
  stats.low_watermark = low_watermark();
  stats.ongoing = txns_.size();
  return stats;
}

Task<Status> TransactionCoordinator::close() {
  auto self = shared_from_this();
  closing_ = true;
  timer_.cancel();
  for (asio::steady_timer* pause : pauses_) pause->cancel();
  for (auto& [txn, state] : txns_) {
    if (state.over != nullptr) state.over->set();
  }
  co_await gate_.close();
  if (!failed_ && next_ > 0 && next_ < reserved_) {
    // The next one goes on without a gap.
    auto properties = log_->ledger().properties();
    properties[std::string(kIdProperty)] = std::to_string(next_ - 1);
    const Status kept = co_await log_->ledger().set_properties(std::move(properties));
    if (!kept) GM_LOG_WARN("transaction coordinator {}: {}", id_, kept.to_string());
  }
  co_return co_await log_->close();
}

}  // namespace geminga
