#include "broker/topic_shard.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/broker_metrics.h"
#include "broker/compaction_subscription.h"
#include "broker/non_persistent_topic.h"
#include "broker/persistent_topic.h"
#include "broker/subscription_transactions.h"
#include "broker/topic_policies.h"
#include "broker/transactions.h"
#include "metadata/metadata_store.h"

namespace geminga {

namespace {
Status closing_down() { return Status::ServiceNotReady("the broker is shutting down"); }
}  // namespace

TopicShard::TopicShard(Broker& broker, Shard& shard)
    : broker_(broker),
      shard_(shard),
      timer_(shard.executor()),
      compaction_timer_(shard.executor()) {}

TopicShard::~TopicShard() = default;

void TopicShard::start() {
  topic_policy_watch_ =
      broker_.metadata().watch("/admin/topic-policies", [this](const MetadataEvent& event) {
        if (event.kind != MetadataEvent::Kind::ChildrenChanged) topic_policies_changed(event.path);
      });
  policy_watch_ = broker_.metadata().watch("/admin/policies", [this](const MetadataEvent& event) {
    if (event.kind == MetadataEvent::Kind::Modified) policies_changed(event.path);
  });
  expired_ms_ = now_ms();
  spawn(shard_, gate_, [this]() -> Task<void> { co_await look_after_topics(); });
  spawn(shard_, gate_, [this]() -> Task<void> { co_await look_after_compaction(); });
}

// Marks a slot busy for as long as it lives; the slot is dropped at the end if it holds no topic.
class TopicShard::Turn {
 public:
  Turn(TopicShard& owner, TopicName name) : owner_(owner), name_(std::move(name)) {
    slot().busy = std::make_shared<Event>();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    const auto event = std::exchange(slot().busy, nullptr);
    if (slot().topic == nullptr) owner_.topics_.erase(name_);
    event->set();
  }
  Slot& slot() { return owner_.topics_[name_]; }

 private:
  TopicShard& owner_;
  const TopicName name_;
};

Task<void> TopicShard::wait_idle(const TopicName& name) {
  for (;;) {
    const auto at = topics_.find(name);
    if (at == topics_.end() || at->second.busy == nullptr) co_return;
    auto busy = at->second.busy;
    co_await busy->wait();
  }
}

std::shared_ptr<Topic> TopicShard::loaded(const TopicName& name) const {
  const auto at = topics_.find(name);
  if (at == topics_.end() || at->second.busy != nullptr || at->second.topic == nullptr)
    return nullptr;
  return at->second.topic->closing() ? nullptr : at->second.topic;
}

std::vector<std::shared_ptr<Topic>> TopicShard::all() const {
  std::vector<std::shared_ptr<Topic>> topics;
  for (const auto& [name, slot] : topics_) {
    if (slot.topic != nullptr && !slot.topic->closing()) topics.push_back(slot.topic);
  }
  return topics;
}

Task<Result<std::shared_ptr<Topic>>> TopicShard::get(TopicName name, bool create_if_missing) {
  const auto inside = gate_.hold();
  if (!inside) co_return closing_down();
  for (;;) {
    co_await wait_idle(name);
    if (closing_) co_return closing_down();
    const auto at = topics_.find(name);
    if (at == topics_.end()) break;
    if (!at->second.topic->closing()) co_return at->second.topic;
    // A write failed; its unloading is about to begin.
    GM_CO_RETURN_IF_ERROR(co_await unload_closing(name));
  }
  const Result<Isolation::Hold> place = broker_.isolation().hold(name.ns());
  if (!place) co_return place.status();
  if (&broker_.shard_of(name) != &shard_) {
    co_return Status::ServiceNotReady(
        fmt::format("namespace {} has moved to other shards; try again", name.ns()));
  }
  Turn turn(*this, name);
  const std::int64_t began = monotonic_ns();
  Result<std::shared_ptr<Topic>> topic = co_await load(name, create_if_missing);
  ShardMetrics& metrics = broker_.metrics().of(shard_.id());
  (topic ? metrics.topic_loads : metrics.topic_loads_failed).add();
  if (topic) {
    turn.slot().topic = *topic;
    GM_LOG_DEBUG("{} loaded in {} us", name.full(), (monotonic_ns() - began) / 1000);
  }
  co_return topic;
}

Task<Result<std::shared_ptr<Topic>>> TopicShard::load(TopicName name, bool create_if_missing) {
  const BrokerConfig& config = broker_.config();
  if (name.persistent() ? !config.enable_persistent_topics : !config.enable_non_persistent_topics) {
    co_return Status::NotAllowed(
        fmt::format("Broker is unable to load {} topic", to_string(name.domain())));
  }
  if (name.is_transaction_log()) {
    const Result<bool> exists = co_await broker_.topic_exists(name);
    if (!exists) co_return exists.status();
    if (!*exists && !create_if_missing) {
      co_return Status::TopicNotFound(fmt::format("Topic {} does not exist", name.full()));
    }
    co_return Status::NotAllowed(
        fmt::format("Can not create transaction system topic {}", name.full()));
  }
  if (!name.persistent()) {
    if (!create_if_missing) {
      co_return Status::TopicNotFound(fmt::format("Topic {} does not exist", name.full()));
    }
    Result<TopicSettings> settings = co_await broker_.topic_settings(name);
    if (!settings) co_return settings.status();
    auto topic = std::make_shared<NonPersistentTopic>(shard_, name, broker_.config());
    topic->apply(*settings);
    co_return topic;
  }
  Result<TopicSettings> settings = co_await broker_.topic_settings(name);
  if (!settings) co_return settings.status();
  PersistentTopicEnv env{shard_,
                         broker_.ledgers(name),
                         broker_.metadata(),
                         broker_.config(),
                         [this](const TopicName& failed) { unload_failed(failed); },
                         {},
                         broker_.unacked()};
  if (broker_.transactions().enabled()) {
    env.transaction_is_open = [this](TxnId txn) { return broker_.transactions().is_open(txn); };
  }
  Result<std::shared_ptr<PersistentTopic>> topic =
      co_await PersistentTopic::open(std::move(env), name, *settings, create_if_missing);
  if (!topic) co_return topic.status();
  co_return std::shared_ptr<Topic>(std::move(*topic));
}

void TopicShard::unload_failed(const TopicName& name) {
  broker_.metrics().of(shard_.id()).topics_failed.add();
  shard_.post([this, name] {
    spawn(shard_, gate_, [this, name]() -> Task<void> {
      const Status status = co_await unload_closing(name);
      if (!status)
        GM_LOG_WARN("{}: closing it after a failed write: {}", name.full(), status.to_string());
    });
  });
}

Task<Status> TopicShard::unload(TopicName name) {
  co_await wait_idle(name);
  const auto at = topics_.find(name);
  if (at == topics_.end()) co_return Status::ok();
  co_return co_await close_loaded(std::move(name));
}

Task<Status> TopicShard::unload_closing(TopicName name) {
  co_await wait_idle(name);
  const auto at = topics_.find(name);
  // Whoever wanted it meanwhile has unloaded it, and may have it open anew.
  if (at == topics_.end() || !at->second.topic->closing()) co_return Status::ok();
  co_return co_await close_loaded(std::move(name));
}

// Its slot is idle.
Task<Status> TopicShard::close_loaded(TopicName name) {
  Turn turn(*this, name);
  auto topic = turn.slot().topic;
  const Status status = co_await topic->close();
  // Closed or not, the object is dead; the log is opened afresh next time.
  turn.slot().topic = nullptr;
  co_return status;
}

Task<Status> TopicShard::remove(TopicName name, bool force) {
  const auto inside = gate_.hold();
  if (!inside) co_return closing_down();
  if (name.is_transaction_log()) co_return co_await remove_log(name);
  Result<std::shared_ptr<Topic>> found = co_await get(name, false);
  if (!found) co_return found.status();
  co_await wait_idle(name);
  const auto at = topics_.find(name);
  if (at == topics_.end())
    co_return Status::TopicNotFound(fmt::format("Topic {} does not exist", name.full()));
  Turn turn(*this, name);
  auto topic = turn.slot().topic;
  const Status status = co_await topic->remove(force);
  // Refused: it serves on. Otherwise it is dead, even if not everything could be deleted.
  if (status.is_ok() || topic->closing()) turn.slot().topic = nullptr;
  co_return status;
}

// Left over from a topic or subscription that is gone: nobody has it open.
Task<Status> TopicShard::remove_log(TopicName name) {
  if (name.ns() == "pulsar/system") {
    co_return Status::NotAllowed(
        fmt::format("{} belongs to a transaction coordinator", name.full()));
  }
  const ManagedLedgerEnv env{&shard_, &broker_.ledgers(name), &broker_.metadata()};
  auto log = co_await InternalLog::open(env, name.managed_ledger_name(),
                                        std::string(SubscriptionTransactions::kCursor),
                                        ManagedLedgerConfig(), false);
  if (log.is(ErrorCode::NotFound)) {
    co_return Status::TopicNotFound(fmt::format("Topic {} does not exist", name.full()));
  }
  if (!log) co_return log.status();
  auto opened = std::move(*log);
  co_return co_await opened->remove();
}

Task<Status> TopicShard::close() {
  closing_ = true;
  policy_watch_.reset();
  topic_policy_watch_.reset();
  timer_.cancel();
  compaction_timer_.cancel();
  Status first;
  // Loads that are under way end first; their topics are then here.
  while (!topics_.empty()) {
    const TopicName name = topics_.begin()->first;
    Status status = co_await unload(name);
    if (!status && first.is_ok()) first = std::move(status);
  }
  co_await gate_.close();
  co_return first;
}

// --- in the background ---

// `last` is when it was done; true, and noted, if it is due again.
static bool due(std::int64_t& last, std::int64_t now, std::int64_t every_ms) {
  if (now - last < every_ms) return false;
  last = now;
  return true;
}

Task<void> TopicShard::look_after_topics() {
  const BrokerConfig& config = broker_.config();
  inactive_checked_ms_ = subscriptions_expired_ms_ = backlogs_checked_ms_ = now_ms();
  snapshots_checked_ms_ = now_ms();
  while (!closing_) {
    timer_.expires_after(std::chrono::seconds(1));
    boost::system::error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (closing_) co_return;
    const std::int64_t now = now_ms();
    if (config.backlog_quota_check_enabled &&
        due(backlogs_checked_ms_, now, config.backlog_quota_check_interval_in_seconds * 1000)) {
      co_await check_backlogs();
    }
    const auto live = broker_.live_config().now();
    if (due(inactive_checked_ms_, now,
            live->broker_delete_inactive_topics_frequency_seconds * 1000)) {
      co_await delete_inactive(now);
    }
    if (due(subscriptions_expired_ms_, now,
            config.subscription_expiry_check_interval_in_minutes * 60'000)) {
      co_await expire_subscriptions(now);
    }
    const std::int64_t snapshots = config.broker_deduplication_snapshot_frequency_in_seconds;
    if (snapshots > 0 && due(snapshots_checked_ms_, now, snapshots * 1000)) {
      for (const auto& topic : all()) topic->snapshot_if_due(now);
    }
    if (due(expired_ms_, now, config.message_expiry_check_interval_in_minutes * 60'000)) {
      co_await expire_messages();
    }
  }
}

Task<void> TopicShard::look_after_compaction() {
  const auto period =
      std::chrono::seconds(broker_.config().broker_service_compaction_monitor_interval_in_seconds);
  while (!closing_) {
    compaction_timer_.expires_after(period);
    boost::system::error_code ignored;
    co_await compaction_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    if (closing_) co_return;
    for (const auto& topic : all()) topic->compact_if_due();
  }
}

Task<void> TopicShard::check_backlogs() {
  const std::int64_t began = monotonic_ns();
  for (const auto& topic : all()) {
    if (topic->name().persistent() && !topic->closing()) co_await topic->check_backlog();
  }
  broker_.metrics().of(shard_.id()).backlog_checks.record_ns(monotonic_ns() - began);
}

Task<void> TopicShard::delete_inactive(std::int64_t now) {
  std::vector<std::pair<TopicName, bool>> idle;  // and: has it subscriptions?
  for (auto& [name, slot] : topics_) {
    if (slot.busy != nullptr || slot.topic == nullptr || name.is_system()) continue;
    const Topic& topic = *slot.topic;
    bool used = topic.producer_count() > 0 || topic.consumer_count() > 0;
    const auto subscriptions = topic.subscription_names();
    for (const std::string& subscription : subscriptions) {
      const auto found = topic.subscription(subscription);
      used = used || (found->cursor() != nullptr && found->cursor()->backlog_entries() > 0);
    }
    if (used) {
      slot.idle_since_ms = 0;
      continue;
    }
    if (slot.idle_since_ms == 0) slot.idle_since_ms = now;
    idle.emplace_back(name, !subscriptions.empty());
  }
  for (const auto& [name, subscribed] : idle) {
    const Result<TopicSettings> settings = co_await broker_.topic_settings(name);
    if (!settings || !settings->delete_while_inactive) continue;
    if (subscribed && !settings->inactive_if_caught_up) continue;
    const auto slot = topics_.find(name);
    if (slot == topics_.end() || slot->second.idle_since_ms == 0 ||
        now - slot->second.idle_since_ms < settings->inactive_seconds * 1000) {
      continue;
    }
    const Status deleted = co_await remove(name, false);
    if (deleted.is_ok()) {
      broker_.metrics().of(shard_.id()).inactive_topics_deleted.add();
      GM_LOG_INFO("{}: deleted, nobody has used it for {} s", name.full(),
                  settings->inactive_seconds);
    } else if (!deleted.is(ErrorCode::TopicNotFound) &&
               !deleted.is(ErrorCode::PreconditionFailed)) {
      GM_LOG_WARN("{}: deleting it because nobody uses it: {}", name.full(), deleted.to_string());
    }
  }
}

Task<void> TopicShard::expire_subscriptions(std::int64_t now) {
  for (const auto& topic : all()) {
    if (!topic->name().persistent() || topic->name().is_system()) continue;
    const Result<TopicSettings> settings = co_await broker_.topic_settings(topic->name());
    if (!settings || settings->subscription_expiration_minutes <= 0) continue;
    const std::int64_t unused_ms = settings->subscription_expiration_minutes * 60'000;
    for (const std::string& name : topic->subscription_names()) {
      const auto subscription = topic->subscription(name);
      if (subscription == nullptr || subscription->consumer_count() > 0 ||
          name == kCompactionCursor || !subscription->cursor()->durable() ||
          now - subscription->cursor()->last_active_ms() < unused_ms) {
        continue;
      }
      const Status deleted = co_await topic->delete_subscription(name, false);
      if (deleted.is_ok()) {
        broker_.metrics().of(shard_.id()).inactive_subscriptions_deleted.add();
        GM_LOG_INFO("{}: subscription {} deleted, unused for {} minutes", topic->name().full(),
                    name, settings->subscription_expiration_minutes);
      } else {
        GM_LOG_WARN("{}: deleting the unused subscription {}: {}", topic->name().full(), name,
                    deleted.to_string());
      }
    }
  }
}

Task<void> TopicShard::expire_messages() {
  for (const auto& topic : all()) {
    if (!topic->name().persistent()) continue;
    const Result<TopicSettings> settings = co_await broker_.topic_settings(topic->name());
    if (!settings || settings->message_ttl_seconds <= 0) continue;
    for (const std::string& name : topic->subscription_names()) {
      const auto subscription = topic->subscription(name);
      if (subscription == nullptr || name == kCompactionCursor) continue;
      const Status expired = co_await subscription->expire(settings->message_ttl_seconds);
      if (!expired)
        GM_LOG_WARN("{}: expiring messages of {}: {}", topic->name().full(), name,
                    expired.to_string());
    }
  }
}

// "/admin/policies/tenant/ns" was written: its topics get the new settings.
void TopicShard::policies_changed(const std::string& path) {
  const std::string name_space = path.substr(sizeof("/admin/policies/") - 1);
  for (const auto& topic : all()) {
    if (topic->name().ns() == name_space) refresh(topic);
  }
}

void TopicShard::topic_policies_changed(const std::string& path) {
  for (const auto& topic : all()) {
    if (topic_policies_key(topic->name()) == path) refresh(topic);
  }
}

void TopicShard::resume_all() {
  for (const auto& topic : all()) {
    for (const std::string& name : topic->subscription_names()) {
      if (const auto subscription = topic->subscription(name)) subscription->entries_available();
    }
  }
}

void TopicShard::refresh_all() {
  for (const auto& topic : all()) refresh(topic);
}

void TopicShard::refresh(std::shared_ptr<Topic> topic) {
  spawn(shard_, gate_, [this, topic]() -> Task<void> {
    const Result<TopicSettings> settings = co_await broker_.topic_settings(topic->name());
    if (settings) {
      topic->apply(*settings);
    } else {
      GM_LOG_WARN("{}: reading its policies: {}", topic->name().full(),
                  settings.status().to_string());
    }
  });
}

}  // namespace geminga
