// Key_Shared: every key belongs to one consumer at a time, and its messages come in order.
//
// A selector maps key slots to consumers. An entry whose owner cannot take it now is parked for the
// owner while reading goes on for the others, up to a bound; later entries of its slot are parked
// behind it. When consumers come and go and a slot gets a new owner while another still holds
// unacknowledged entries of it, the slot drains: its entries are parked until the holder has
// acknowledged or given back the last one. That is derived from one table, slot to (holder,
// pending, parked), so no membership change needs bookkeeping of its own. With
// allowOutOfOrderDelivery there is no such table; with Sticky ranges nothing drains.
//
// Batches whose messages have different keys are handled apart (dispatcher_key_shared_batches.cc):
// each consumer is shown the messages of its own slots only, and what it acknowledges covers just
// these, whether its client acknowledges whole entries or single messages of a batch. A Java client
// that is known to do the latter gets the entry with an ack set; others would never acknowledge an
// entry of which they saw a part, and get a batch of just their messages, numbered anew (decision
// 0004).
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <string>
#include <vector>

#include "broker/dispatcher_multiple.h"
#include "broker/key_shared_selector.h"
#include "broker/mixed_batch.h"

namespace geminga {

class DispatcherKeyShared final : public DispatcherMultiple {
 public:
  DispatcherKeyShared(const DispatcherEnv& env, const KeySharedOptions& options);

  Status admit(const SubscribeRequest& request) const override;
  void ack(Consumer& consumer, const AckedMessage& message) override;
  bool as_stored(const Consumer& consumer, AckedMessage& message) override;
  void ack_committed(const AckedMessage& message) override;
  void transaction_ended(std::span<const AckedMessage> messages, bool committed) override;
  void mark_delete_moved() override;
  void rewind() override;
  void measure(SubscriptionNumbers& numbers) const override;
  void describe(SubscriptionStats& stats) const override;
  void describe(const Consumer& consumer, ConsumerStats& stats) const override;
  std::vector<std::string> key_ranges(const Consumer& consumer) const override;

 protected:
  Verdict dispatch(const Entry& entry) override;
  void queue_again(Position position, std::uint16_t slot) override;
  bool must_wait(const Consumer& consumer, Position position,
                 const ParkedEntry& entry) const override;
  void deliver_parked(Consumer& consumer, const Entry& entry, ParkedEntry parked) override;
  bool replay_waits() const override;
  Status joined(Consumer& consumer) override;
  void left(Consumer& consumer) override;
  void slot_pending(Consumer& consumer, Position position, std::uint16_t slot) override;
  void slot_released(Consumer& consumer, Position position, std::uint16_t slot) override;
  void slot_parked(Consumer& consumer, Position position, std::uint16_t slot) override;
  void slot_unparked(Consumer& consumer, Position position, std::uint16_t slot) override;

 private:
  struct SlotUse {
    Consumer* holder = nullptr;  // of the pending ones
    std::uint32_t pending = 0;
    std::uint32_t parked = 0;
    std::vector<Position> deferred;  // of the parked ones, MixedBatch::Key::deferred
  };
  // Stands for the slots of a mixed batch, in pending and parked entries.
  static constexpr KeySlot kMixed = 0;

  // The slots' owners changed: everything that waits goes to the new ones.
  void share_out_again();
  // Has another consumer than `owner` unacknowledged entries of the slot?
  bool draining(KeySlot slot, const Consumer* owner) const;
  // Must an entry of the slot at `position` wait although its owner is ready?
  bool blocked(KeySlot slot, const Consumer* owner, Position position) const;
  void use_slot(Consumer& consumer, KeySlot slot);
  void release_slot(const Consumer& consumer, KeySlot slot);
  void park_slot(KeySlot slot);
  void unpark_slot(KeySlot slot);

  // --- mixed batches ---
  // The batch's slots, if it has several; else `slot` is that of all its messages (unchanged if it
  // cannot be read).
  MixedBatch* mixed_batch(const Entry& entry, const EntryMetadata& metadata, KeySlot& slot);
  MixedBatch* mixed_at(Position position) const;
  AckSet left_of(Position position, const MixedBatch& batch) const;
  Verdict dispatch_mixed(const Entry& entry, const EntryMetadata& metadata, MixedBatch& batch);
  void queue_mixed_again(Position position);
  // Sends what is shown to the consumer and not sent yet.
  void show(const Entry& entry, const EntryMetadata& metadata, MixedBatch& batch,
            Consumer& consumer, const AckSet& left);
  void key_waits(Position position, MixedBatch& batch, MixedBatch::Key& key, Consumer& owner);
  void key_shown(MixedBatch& batch, MixedBatch::Key& key, Consumer& owner);
  // Its key is Idle afterwards.
  void take_key(Position position, MixedBatch& batch, MixedBatch::Key& key);
  // Marks what waits for the consumer's own acknowledgement of this entry.
  void defer_keys(Position position, MixedBatch& batch, Consumer& consumer);
  // All messages of the batch but those that the client acknowledged of what it was shown; empty if
  // it holds nothing of it.
  AckSet kept(const MixedBatch::Part* part, const AckedMessage& message, const MixedBatch& batch);
  // Everything but `keep` is acknowledged.
  void ack_mixed(Position position, const AckSet& keep, MixedBatch& batch);
  // Could an acknowledgement of the whole entry mean a part of it only?
  bool may_be_mixed(Position position);

  const KeySharedMode mode_;
  const bool in_order_;
  std::unique_ptr<KeySharedSelector> selector_;
  boost::unordered_flat_map<KeySlot, SlotUse> slots_;
  PositionMap<std::unique_ptr<MixedBatch>> mixed_;
  std::int64_t drained_slots_ = 0;  // so far
  std::string key_scratch_;
  std::vector<std::uint32_t> hashes_;
  std::vector<KeySlot> slots_of_batch_;
  std::vector<bool> alive_;
  std::vector<Entry> one_entry_;
};

}  // namespace geminga
