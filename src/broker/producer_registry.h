// The producers of one topic: names, access modes and the topic's epoch (wire-protocol §5.4, §5.5).
//
// Belongs to its topic and to the topic's shard. An exclusive grant moves the topic's epoch, which
// is made durable by the topic before the grant is answered; meanwhile the place is taken already.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "broker/producer.h"
#include "broker/topic.h"
#include "runtime/gate.h"
#include "runtime/shard.h"

namespace geminga {

class ProducerRegistry {
 public:
  // Makes the epoch durable. Must not outlive the topic: runs inside `gate`.
  using StoreEpoch = std::function<Task<Status>(std::uint64_t)>;

  ProducerRegistry(std::string topic, Shard& shard, Gate& gate, StoreEpoch store_epoch)
      : topic_(std::move(topic)),
        shard_(shard),
        gate_(gate),
        store_epoch_(std::move(store_epoch)) {}

  std::optional<std::uint64_t> epoch() const { return epoch_; }
  void restore_epoch(std::uint64_t epoch) { epoch_ = epoch; }
  void set_liveness_timeout(Millis timeout) { liveness_timeout_ = timeout; }
  void set_limit(std::size_t max_producers) { max_producers_ = max_producers; }  // 0: none

  // ProducerBusy, ProducerFenced, or what storing the epoch brings.
  Task<Result<ProducerGrant>> add(std::shared_ptr<Producer> producer);
  // It left; those that wait for exclusive access may get their turn. No-op if it is not (or no
  // longer) here.
  void remove(const std::shared_ptr<Producer>& producer);
  // CLOSE_PRODUCER to every one, also to those that wait.
  void close_all();

  std::size_t size() const { return producers_.size(); }
  bool empty() const { return producers_.empty() && waiting_.empty(); }
  const std::map<std::string, std::shared_ptr<Producer>>& all() const { return producers_; }
  // What the sample of the topic says of its producers.
  void sample(TopicSample& into, SampleDetail detail, std::int64_t now_ns) const;

 private:
  Status admit(const Producer& producer) const;
  Task<Result<ProducerGrant>> add_exclusive(std::shared_ptr<Producer> producer);
  Task<Status> take_name(std::shared_ptr<Producer> producer);
  void fence_out_all();
  void promote_next();
  Task<void> promote(std::shared_ptr<Producer> producer);

  const std::string topic_;
  Shard& shard_;
  Gate& gate_;
  const StoreEpoch store_epoch_;
  std::map<std::string, std::shared_ptr<Producer>> producers_;  // by name
  std::deque<std::shared_ptr<Producer>> waiting_;               // for exclusive access
  std::shared_ptr<Producer> exclusive_;                         // has it, or is about to
  std::optional<std::uint64_t> epoch_;
  std::size_t max_producers_ = 0;
  Millis liveness_timeout_{5000};  // connectionLivenessCheckTimeoutMillis
};

}  // namespace geminga
