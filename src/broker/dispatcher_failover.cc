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

std::size_t DispatcherFailover::active_index() const {
  const auto best = static_cast<std::size_t>(
      std::find_if(consumers_.begin(), consumers_.end(),
                   [&](const auto& c) { return c->priority() != consumers_.front()->priority(); }) -
      consumers_.begin());
  const std::int32_t partition = env_.topic.name().partition_index();
  if (partition >= 0 && !env_.config.failover_consistent_hashing) {
    return static_cast<std::size_t>(partition) % best;
  }
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < best; ++i) names.push_back(consumers_[i]->name());
  return failover_ring_choice(env_.topic.name().full(), names);
}

bool DispatcherFailover::choose_active() {
  std::stable_sort(consumers_.begin(), consumers_.end(), [](const auto& a, const auto& b) {
    return std::forward_as_tuple(a->priority(), a->name()) <
           std::forward_as_tuple(b->priority(), b->name());
  });
  Consumer* chosen = consumers_.empty() ? nullptr : consumers_[active_index()].get();
  return std::exchange(active_, chosen) != chosen;
}

Status DispatcherFailover::add(std::shared_ptr<Consumer> consumer) {
  Consumer* added = consumer.get();
  consumer->attach(this);
  consumers_.push_back(std::move(consumer));
  if (choose_active()) {
    begin_change();
    return Status::ok();
  }
  // Clients know a consumer only once SUBSCRIBE was answered: tell it after that.
  env_.shard.post([weak = weak_from_this(), id = added->id(), outbox = added->shared_outbox()] {
    if (!weak.expired()) outbox->send_active_consumer_change(id, false);
  });
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
  for (auto& consumer : consumers_) {
    consumer->outbox().send_active_consumer_change(consumer->id(), consumer.get() == active_);
  }
}

}  // namespace geminga
