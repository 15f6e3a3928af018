#include "broker/publish_pacer.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "broker/producer.h"

namespace geminga {

namespace {
// Not woken more often, however high the rate: what has come together by then passes at once.
constexpr std::int64_t kShortestWaitNs = 5'000'000;
}  // namespace

PublishPacer::PublishPacer(Shard& shard, Pass pass)
    : pass_(std::move(pass)), timer_(shard.executor()) {}

PublishPacer::~PublishPacer() { timer_.cancel(); }

void PublishPacer::limit(const Rate& rate) {
  limiter_.set(rate, monotonic_ns());
  if (!held_.empty()) pass_some();
}

void PublishPacer::offer(std::vector<PublishItem>& items) {
  const std::int64_t now = monotonic_ns();
  for (PublishItem& item : items) {
    if (!held_.empty() || limiter_.wait_ns(now) > 0) {
      hold(std::move(item));
      continue;
    }
    limiter_.take(item.messages, static_cast<std::int64_t>(item.entry.size()), now);
    passing_.push_back(std::move(item));
  }
  items.clear();
  if (!passing_.empty()) pass_(passing_);
  passing_.clear();
  if (!held_.empty() && !waiting_) {
    ++times_limited_;
    wait(limiter_.wait_ns(now));
  }
}

void PublishPacer::hold(PublishItem item) {
  Producer& producer = *item.producer;
  Held held;
  const auto bytes = static_cast<std::int64_t>(item.entry.size());
  if (aside_ < kMostAside && bytes_aside_ + bytes <= kMostBytesAside) {
    held.aside = true;
    ++aside_;
    bytes_aside_ += bytes;
    // Of its own: the block that was read is not kept for one message of it.
    item.entry = Buffer::copy_of(item.entry.span());
    producer.outbox().set_publishes_aside(1);
  }
  // Whoever closes the producer waits for it.
  producer.publish_started();
  held.item = std::move(item);
  held_.push_back(std::move(held));
}

void PublishPacer::pass_some() {
  const std::int64_t now = monotonic_ns();
  std::vector<std::shared_ptr<Producer>> producers;
  while (!held_.empty() && limiter_.wait_ns(now) == 0) {
    Held held = std::move(held_.front());
    held_.pop_front();
    const auto bytes = static_cast<std::int64_t>(held.item.entry.size());
    limiter_.take(held.item.messages, bytes, now);
    if (held.aside) {
      --aside_;
      bytes_aside_ -= bytes;
      held.item.producer->outbox().resume_publishes(1);
    }
    producers.push_back(held.item.producer);
    passing_.push_back(std::move(held.item));
  }
  if (!passing_.empty()) pass_(passing_);
  passing_.clear();
  // They count as started again by now, if they were taken.
  for (const auto& producer : producers) producer->publish_done();
  if (held_.empty()) {
    held_.release_memory();
  } else if (!waiting_) {
    wait(limiter_.wait_ns(now));
  }
}

void PublishPacer::wait(std::int64_t ns) {
  waiting_ = true;
  timer_.expires_after(std::chrono::nanoseconds(std::max(ns, kShortestWaitNs)));
  timer_.async_wait(
      [this, alive = std::weak_ptr<int>(alive_)](const boost::system::error_code& error) {
        if (alive.expired()) return;
        waiting_ = false;
        if (!error && !held_.empty()) pass_some();
      });
}

void PublishPacer::drop() {
  timer_.cancel();
  while (!held_.empty()) {
    Held held = std::move(held_.front());
    held_.pop_front();
    if (!held.aside) held.item.producer->outbox().forget_publishes(1);
    held.item.producer->publish_done();
  }
  aside_ = 0;
  bytes_aside_ = 0;
}

}  // namespace geminga
