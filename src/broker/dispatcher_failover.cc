#include "broker/dispatcher_failover.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "broker/topic.h"

namespace geminga {

std::size_t failover_ring_choice(std::string_view topic, std::span<const std::string_view> names) {
  constexpr int kPoints = 100;
  std::map<std::uint32_t, std::size_t> ring;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (int point = 0; point < kPoints; ++point) {
      ring[sticky_key_hash(std::string(names[i]) + std::to_string(point))] = i;
    }
  }
  const auto it = ring.lower_bound(sticky_key_hash(topic));
  return it == ring.end() ? ring.begin()->second : it->second;
}

Status DispatcherFailover::admit(const SubscribeRequest&) const { return Status::ok(); }

std::size_t choose_failover_active(const TopicName& topic, bool always_by_hash,
                                   std::vector<std::shared_ptr<Consumer>>& consumers) {
  std::stable_sort(consumers.begin(), consumers.end(), [](const auto& a, const auto& b) {
    return std::forward_as_tuple(a->priority(), a->name()) <
           std::forward_as_tuple(b->priority(), b->name());
  });
  std::vector<std::string_view> best;
  for (const auto& consumer : consumers) {
    if (consumer->priority() == consumers.front()->priority()) best.push_back(consumer->name());
  }
  const std::int32_t partition = topic.partition_index();
  if (partition >= 0 && !always_by_hash) return static_cast<std::size_t>(partition) % best.size();
  return failover_ring_choice(topic.full(), best);
}

bool DispatcherFailover::choose_active() {
  Consumer* chosen = nullptr;
  if (!consumers_.empty()) {
    const std::size_t index = choose_failover_active(
        env_.topic.name(), env_.config.failover_consistent_hashing, consumers_);
    chosen = consumers_[index].get();
  }
  return std::exchange(active_, chosen) != chosen;
}

Status DispatcherFailover::add(std::shared_ptr<Consumer> consumer) {
  consumer->attach(this);
  consumers_.push_back(consumer);
  if (choose_active()) {
    begin_change();
  } else if (!changing_) {
    // Clients know a consumer only once SUBSCRIBE was answered: tell it after that.
    env_.shard.post([weak = weak_from_this(), consumer] {
      auto self = weak.lock();
      if (self && consumer->attached())
        static_cast<DispatcherFailover*>(self.get())->tell(*consumer);
    });
  }
  return Status::ok();
}

void DispatcherFailover::remove(Consumer& consumer) {
  auto removed = take_out(consumer);
  if (consumers_.empty()) {
    active_ = nullptr;
    changing_ = false;
    if (timer_) timer_->cancel();
    rewind();
    return;
  }
  if (choose_active()) begin_change();
}

void DispatcherFailover::stop() {
  if (timer_) timer_->cancel();
  DispatcherExclusive::stop();
}

void DispatcherFailover::begin_change() {
  if (changing_) return;  // the timer will find who is active then
  // A read or a turn for the former one must not deliver to the new one before the rewind.
  rewind();
  if (env_.config.failover_delay.count() <= 0) {
    finish_change();
    return;
  }
  changing_ = true;
  timer_.emplace(env_.shard.executor());
  timer_->expires_after(env_.config.failover_delay);
  timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    auto self = weak.lock();
    if (!self || cancelled) return;
    static_cast<DispatcherFailover*>(self.get())->finish_change();
  });
}

void DispatcherFailover::finish_change() {
  changing_ = false;
  if (stopped() || active_ == nullptr) return;
  rewind();
  for (auto& consumer : consumers_) tell(*consumer);
}

void DispatcherFailover::tell(Consumer& consumer) {
  const bool active = &consumer == active_;
  // Who will be active is told so when it starts.
  if (consumer.told_active == active || (changing_ && active)) return;
  consumer.told_active = active;
  consumer.outbox().send_active_consumer_change(consumer.id(), active);
}

}  // namespace geminga
