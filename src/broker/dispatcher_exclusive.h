// One consumer gets everything, in order: Exclusive, and what Failover is built on. Keeps nothing
// per entry. A consumer that asked for the compacted topic gets what compaction left up to its
// horizon and the log behind it (compacted_reads.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "broker/dispatcher.h"

namespace geminga {

class DispatcherExclusive : public Dispatcher {
 public:
  explicit DispatcherExclusive(const DispatcherEnv& env)
      : DispatcherExclusive(env, SubscriptionType::Exclusive) {}

  Status admit(const SubscribeRequest& request) const override;
  Status add(std::shared_ptr<Consumer> consumer) override;
  void remove(Consumer& consumer) override;
  void ack(Consumer& consumer, const AckedMessage& message) override;
  void rewind() override;
  // Positions mean nothing here: all that is not acknowledged comes again, in order.
  void redeliver(Consumer& consumer, std::span<const Position> positions,
                 std::int64_t epoch) override;
  WaitReason why_waiting() const override;
  WaitReason why_waiting(const Consumer& consumer) const override;

 protected:
  DispatcherExclusive(const DispatcherEnv& env, SubscriptionType type) : Dispatcher(env, type) {}
  void deliver() override;
  // Whom to deliver to; nullptr: nobody now.
  virtual Consumer* receiver() const {
    return consumers_.empty() ? nullptr : consumers_.front().get();
  }

 private:
  // nullptr unless the consumer reads the compacted topic.
  CompactedReads* compacted_reads(const Consumer* consumer) const;
  // What is to be delivered next is in the compacted data. May move the read position over what
  // they have nothing of.
  bool read_compacted(const Consumer& consumer);
  // What of an entry of the compacted data is sent now; `left` is what its cursor says.
  Remaining left_in_compacted(Position gap_from, const Entry& entry, const EntryMetadata& metadata,
                              const Remaining& left);
  // Consumers that asked for a part of the keys (readers with key hash ranges) see only those.
  bool wanted(const Consumer& consumer, const EntryMetadata& metadata);

  std::string key_scratch_;
};

}  // namespace geminga
