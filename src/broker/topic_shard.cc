#include "broker/topic_shard.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/non_persistent_topic.h"
#include "broker/persistent_topic.h"

namespace geminga {

namespace {
Status closing_down() { return Status::ServiceNotReady("the broker is shutting down"); }
}  // namespace

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
    const Status unloaded = co_await unload(name);
    if (!unloaded) co_return unloaded;
  }
  Turn turn(*this, name);
  const std::int64_t began = monotonic_ns();
  Result<std::shared_ptr<Topic>> topic = co_await load(name, create_if_missing);
  if (topic) {
    turn.slot().topic = *topic;
    GM_LOG_DEBUG("{} loaded in {} us", name.full(), (monotonic_ns() - began) / 1000);
  }
  co_return topic;
}

Task<Result<std::shared_ptr<Topic>>> TopicShard::load(TopicName name, bool create_if_missing) {
  if (!name.persistent()) {
    if (!create_if_missing) {
      co_return Status::TopicNotFound(fmt::format("Topic {} does not exist", name.full()));
    }
    co_return std::make_shared<NonPersistentTopic>(shard_, name, broker_.config());
  }
  PersistentTopicEnv env{shard_, broker_.ledgers(name), broker_.metadata(), broker_.config(),
                         [this](const TopicName& failed) { unload_failed(failed); }};
  Result<ManagedLedgerConfig> config = co_await broker_.ledger_config(name);
  if (!config) co_return config.status();
  Result<std::shared_ptr<PersistentTopic>> topic =
      co_await PersistentTopic::open(std::move(env), name, *config, create_if_missing);
  if (!topic) co_return topic.status();
  co_return std::shared_ptr<Topic>(std::move(*topic));
}

void TopicShard::unload_failed(const TopicName& name) {
  shard_.post([this, name] {
    spawn(shard_, gate_, [this, name]() -> Task<void> {
      const Status status = co_await unload(name);
      if (!status)
        GM_LOG_WARN("{}: closing it after a failed write: {}", name.full(), status.to_string());
    });
  });
}

Task<Status> TopicShard::unload(TopicName name) {
  co_await wait_idle(name);
  const auto at = topics_.find(name);
  if (at == topics_.end()) co_return Status::ok();
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

Task<Status> TopicShard::close() {
  closing_ = true;
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

}  // namespace geminga
