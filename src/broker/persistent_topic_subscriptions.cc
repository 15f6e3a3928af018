// The subscriptions of a persistent topic: made, found, limited and deleted.
#include <fmt/format.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "broker/compaction_subscription.h"
#include "broker/persistent_subscription.h"
#include "broker/persistent_topic.h"

namespace geminga {

std::shared_ptr<Subscription> PersistentTopic::make_subscription(
    std::shared_ptr<ManagedCursor> cursor) {
  const std::string name = cursor->name();
  const bool durable = cursor->durable();
  auto made = make_persistent_subscription({*this, *ledger_, std::move(cursor), name, durable,
                                            env_.config, subscription_transactions(name, durable)});
  made->limit_unacked(settings_.max_unacked_per_consumer, settings_.max_unacked_per_subscription);
  made->limit_dispatch(dispatch_rate_of(name));
  return made;
}

std::shared_ptr<Subscription> PersistentTopic::subscription(const std::string& name) const {
  const auto at = subscriptions_.find(name);
  return at == subscriptions_.end() ? nullptr : at->second;
}

std::vector<std::string> PersistentTopic::subscription_names() const {
  std::vector<std::string> names;
  for (const auto& [name, subscription] : subscriptions_) names.push_back(name);
  return names;
}

Task<Result<Topic::Subscribed>> PersistentTopic::subscribe(SubscribeRequest request) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  GM_CO_RETURN_IF_ERROR(ready_to_serve());
  GM_CO_RETURN_IF_ERROR(room_for_consumer(request.type));
  if (request.subscription == kCompactionCursor) {
    GM_CO_RETURN_IF_ERROR(co_await compaction_->hold_log());
    read_beside_compaction(request);
  }
  if (subscribe_rate_.limited() &&
      !subscribe_rate_.admit(consumer_identity(request), monotonic_ns())) {
    co_return Status::NotAllowed("Subscribe limited by subscribe rate limit per consumer.");
  }
  const std::int64_t rollback = request.start_message_rollback_seconds;
  const bool replicated = request.replicate_state && request.durable;
  Subscribed subscribed;
  GM_CO_ASSIGN_OR_RETURN(subscribed.subscription, co_await find_or_create(request));
  const std::int64_t most = settings_.max_consumers_per_subscription;
  if (most > 0 && subscribed.subscription->consumer_count() >= static_cast<std::size_t>(most)) {
    co_return Status::ConsumerBusy("Subscription reached max consumers limit");
  }
  if (rollback > 0) {
    GM_CO_RETURN_IF_ERROR(
        co_await subscribed.subscription->seek_to_time(now_ms() - rollback * 1000));
  }
  GM_CO_ASSIGN_OR_RETURN(subscribed.consumer,
                         co_await subscribed.subscription->add_consumer(std::move(request)));
  if (closing()) {
    subscribed.subscription->remove_consumer(subscribed.consumer);
    co_return not_available();
  }
  if (replicated) subscribed.subscription->set_replicated(true);
  co_return subscribed;
}

// A client may read what is not compacted yet, as tools of Pulsar do; what it acknowledges must not
// move `__compaction`, which goes with the compacted data. So it gets a cursor of its own.
void PersistentTopic::read_beside_compaction(SubscribeRequest& request) const {
  request.subscription = kCompactionReader;
  request.durable = false;
  request.replicate_state = false;
  request.initial_earliest = true;
  request.start_message_id = Position::earliest();
  if (const auto cursor = ledger_->cursor(kCompactionCursor); cursor != nullptr) {
    const Position compacted = cursor->mark_delete();
    request.start_message_id = Position{compacted.ledger, compacted.entry + 1};
  }
}

Status PersistentTopic::room_for_consumer(SubscriptionType type) const {
  if (!settings_.types_allowed[static_cast<std::size_t>(type)]) {
    return Status::NotAllowed(
        fmt::format("Topic[{}] doesn't support {} sub type!", name_.full(), to_string(type)));
  }
  if (settings_.max_consumers > 0 &&
      consumer_count() >= static_cast<std::size_t>(settings_.max_consumers)) {
    return Status::ConsumerBusy("Topic reached max consumers limit");
  }
  return Status::ok();
}

Task<Result<std::shared_ptr<Subscription>>> PersistentTopic::find_or_create(
    const SubscribeRequest& request) {
  const auto lock = co_await creating_.lock();
  if (auto found = subscription(request.subscription); found != nullptr) {
    if (found->cursor()->durable() == request.durable) co_return found;
    co_return Status::NotAllowed(request.durable
                                     ? "NonDurable subscription with the same name already exists."
                                     : "Durable subscription with the same name already exists.");
  }
  GM_CO_RETURN_IF_ERROR(ready_to_serve());
  GM_CO_RETURN_IF_ERROR(settings_.room_for_subscription(subscriptions_.size(), name_.full()));
  std::shared_ptr<ManagedCursor> cursor;
  if (request.durable) {
    if (!settings_.auto_subscription_creation) {
      co_return Status::SubscriptionNotFound("Subscription does not exist");
    }
    const InitialPosition initial =
        request.initial_earliest ? InitialPosition::Earliest : InitialPosition::Latest;
    GM_CO_ASSIGN_OR_RETURN(cursor, co_await ledger_->open_cursor(request.subscription, initial,
                                                                 request.subscription_properties));
  } else {
    const Position unset = request.initial_earliest ? Position::earliest() : Position::latest();
    Position start = request.start_message_id.value_or(unset);
    // Beyond the end means from now on, unless the client would rather begin at the beginning.
    if (request.start_message_id && start != Position::earliest() &&
        start > ledger_->last_confirmed() && ledger_->normalize(start) != start) {
      start = unset;
    }
    cursor = ledger_->new_non_durable_cursor(request.subscription, start);
    non_durable_[request.subscription] = cursor;
  }
  auto made = make_subscription(std::move(cursor));
  subscriptions_[request.subscription] = made;
  if (request.read_compacted) {
    const Position unset = request.initial_earliest ? Position::earliest() : Position::latest();
    made->read_compacted_from(request.durable ? unset : request.start_message_id.value_or(unset));
    GM_CO_RETURN_IF_ERROR(co_await made->cursor()->flush());
  }
  co_return made;
}

Task<Status> PersistentTopic::create_subscription(std::string name, Position start,
                                                  std::map<std::string, std::string> properties) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  const auto lock = co_await creating_.lock();
  if (name == kCompactionCursor) {
    co_return Status::NotAllowed("__compaction is made when the topic is compacted first");
  }
  if (subscriptions_.contains(name)) {
    co_return Status::AlreadyExists(fmt::format("Subscription {} already exists for topic", name));
  }
  GM_CO_RETURN_IF_ERROR(ready_to_serve());
  GM_CO_RETURN_IF_ERROR(settings_.room_for_subscription(subscriptions_.size(), name_.full()));
  std::optional<Position> at;
  InitialPosition initial = InitialPosition::Latest;
  if (start == Position::earliest()) {
    initial = InitialPosition::Earliest;
  } else if (start != Position::latest()) {
    at = start;
  }
  auto opened = co_await ledger_->open_cursor(name, initial, std::move(properties), at);
  if (!opened) co_return opened.status();
  subscriptions_[name] = make_subscription(std::move(*opened));
  co_return Status::ok();
}

Task<Status> PersistentTopic::delete_subscription(std::string name, bool force) {
  auto self = shared_from_this();
  const auto inside = gate_.hold();
  if (!inside) co_return not_available();
  auto found = subscription(name);
  if (found == nullptr) {
    co_return Status::SubscriptionNotFound(
        fmt::format("Subscription {} not found for topic {}", name, name_.full()));
  }
  if (found->consumer_count() > 0 && !force) {
    co_return Status::PreconditionFailed("Subscription has active connected consumers");
  }
  co_await found->close(true);
  // Someone else may have deleted it while its reads ended.
  if (subscription(name) != found) co_return Status::ok();
  auto cursor = ledger_->cursor(name);
  if (cursor == nullptr) {
    drop_non_durable(name);
    co_return Status::ok();
  }
  Status deleted = co_await found->remove_transactions();
  if (deleted) deleted = co_await ledger_->delete_cursor(name);
  if (deleted.is_ok()) {
    subscriptions_.erase(name);
    if (name == kCompactionCursor) co_return co_await compaction_->cursor_deleted();
  } else if (!closing() && name != kCompactionCursor) {
    // It is there still, and must be usable.
    subscriptions_[name] = make_subscription(std::move(cursor));
  }
  co_return deleted;
}

void PersistentTopic::drop_non_durable(const std::string& name) {
  const auto at = subscriptions_.find(name);
  if (at == subscriptions_.end()) return;
  struct Gone {
    std::shared_ptr<PersistentTopic> topic;
    std::shared_ptr<Subscription> subscription;
    std::shared_ptr<ManagedCursor> cursor;
  };
  auto gone = std::make_shared<Gone>(Gone{shared_from_this(), std::move(at->second), nullptr});
  subscriptions_.erase(at);
  if (auto cursor = non_durable_.extract(name); !cursor.empty())
    gone->cursor = std::move(cursor.mapped());
  // Called from inside the subscription: let it return first.
  env_.shard.post([gone = std::move(gone)]() mutable {
    PersistentTopic& topic = *gone->topic;
    spawn(topic.env_.shard, topic.gate_, [gone = std::move(gone)]() -> Task<void> {
      co_await gone->subscription->close(true);
      if (gone->cursor != nullptr) gone->topic->ledger_->remove_non_durable(gone->cursor);
    });
  });
}

std::size_t PersistentTopic::consumer_count() const {
  std::size_t count = 0;
  for (const auto& [name, subscription] : subscriptions_) count += subscription->consumer_count();
  return count;
}

}  // namespace geminga
