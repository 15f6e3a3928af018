// What Shared and Key_Shared have in common: several consumers get different entries and
// acknowledge them one by one.
//
// An entry that was read is in exactly one place: pending at a consumer (sent, not acknowledged),
// parked for one consumer, in the replay queue (to be sent again, to whomever), held in the topic's
// delayed index until its time, or held until the transactions that acknowledged it have ended.
// What is none of these and not acknowledged lies at or beyond the read position. Reading the log
// passes over what the index holds; it comes from there when it is due, in order of due time:
// collected_ tells how far this subscription has collected. Everything is in memory and derived
// again from the log and the index when the last consumer leaves or the topic is loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/dispatcher.h"
#include "broker/ring.h"
#include "broker/topic.h"
#include "broker/unacked_budget.h"
#include "managed_ledger/delayed_index.h"

namespace geminga {

class DispatcherMultiple : public Dispatcher {
 public:
  Status add(std::shared_ptr<Consumer> consumer) override;
  void remove(Consumer& consumer) override;
  void ack(Consumer& consumer, const AckedMessage& message) override;
  void redeliver(Consumer& consumer, std::span<const Position> positions,
                 std::int64_t epoch) override;
  void mark_delete_moved() override;
  void acked_in_transaction(std::span<const Position> positions) override;
  void transaction_ended(std::span<const AckedMessage> messages, bool committed) override;
  void rewind() override;
  WaitReason why_waiting() const override;
  WaitReason why_waiting(const Consumer& consumer) const override;
  std::int64_t unacked_messages() const override { return unacked_; }
  // Held back and not acknowledged: exact up to a thousand, else what the index holds, at most the
  // backlog.
  std::size_t delayed() const override;
  void measure(SubscriptionNumbers& numbers) const override;

 protected:
  DispatcherMultiple(const DispatcherEnv& env, SubscriptionType type)
      : Dispatcher(env, type), unacked_(env.topic.unacked_budget(), env.shard.id()) {}

  enum class Verdict : std::uint8_t {
    Taken,   // sent, or put where it waits, or nothing to send
    NoRoom,  // nobody can take it now: it stays where it is
  };
  // An entry of the log or of the replay queue, not acknowledged.
  virtual Verdict dispatch(const Entry& entry) = 0;
  // An entry that was sent or held before is to be delivered.
  virtual void queue_again(Position position, std::uint16_t slot) = 0;
  // Is the entry, parked for its owner, still to wait for others of its key?
  virtual bool must_wait(const Consumer&, Position, const ParkedEntry&) const { return false; }
  // A parked entry of a consumer that is ready and need not wait.
  virtual void deliver_parked(Consumer& consumer, const Entry& entry, ParkedEntry parked);
  // Does what is in the replay queue wait for consumers that are not there?
  virtual bool replay_waits() const { return false; }
  // How many entries of the log it makes sense to get now; 0: none. Only if any consumer is ready.
  virtual std::size_t wanted_from_log() const { return env_.config.max_read_batch_size; }
  virtual Status joined(Consumer&) { return Status::ok(); }
  virtual void left(Consumer&) {}
  // An entry of the slot became, or is no longer, pending at or parked for the consumer.
  virtual void slot_pending(Consumer&, Position, std::uint16_t) {}
  virtual void slot_released(Consumer&, Position, std::uint16_t) {}
  virtual void slot_parked(Consumer&, Position, std::uint16_t) {}
  virtual void slot_unparked(Consumer&, Position, std::uint16_t) {}

  void deliver() override;
  // Has permits, its client reads, and it may hold more unacknowledged messages.
  bool ready(const Consumer& consumer) const {
    return consumer.wants_more() && below_limit(consumer) && !subscription_full();
  }
  bool any_ready() const;
  void deliver_to(Consumer& consumer, const Entry& entry, std::uint16_t slot);
  // Only a part of it.
  void deliver_to(Consumer& consumer, const Entry& entry, std::uint16_t slot,
                  const Remaining& part);
  std::optional<PendingAck> release(Consumer& consumer, Position position);
  // `messages` of a pending entry were acknowledged.
  void reduce(Consumer& consumer, Position position, std::uint32_t messages) {
    unacked_ -= consumer.pending.reduce(position, messages);
  }
  // False: too many entries are parked already.
  bool park(Consumer& consumer, Position position, ParkedEntry entry);
  void park_anyway(Consumer& consumer, Position position, ParkedEntry entry);
  // Who has it unacknowledged; `first` is asked first.
  Consumer* holder_of(Consumer& first, Position position);
  void unpark(Consumer& consumer, Position position);
  bool look_ahead_full() const { return parked_ + replay_.size() >= look_ahead_limit(); }
  // True: held back until its time (or, if that is not possible, `verdict` says to wait).
  bool hold_if_early(const Entry& entry, const EntryMetadata& metadata, std::uint16_t slot,
                     Verdict& verdict);

  // True: open transactions have acknowledged it; it waits for their end.
  bool hold_for_transaction(Position position, std::uint16_t slot);

  // The consumer that has the first chunks of this message.
  Consumer* bound_to(const EntryMetadata& metadata) const;
  // A chunk whose message can never be put together again, for its first chunk is acknowledged
  // already (the cursor was set into the middle of the message): it is acknowledged here, or it
  // would stay in the backlog for ever. Only when nothing that was read waits anywhere, so that the
  // first chunk cannot be among that.
  bool skip_headless(const Entry& entry, const EntryMetadata& metadata);
  // Notes, when it is sent, where the chunks that follow must go.
  void bind_chunks(const EntryMetadata& metadata, Consumer& consumer);

  PositionMap<std::uint16_t> replay_;  // with slots
  PositionMap<std::uint16_t> held_;    // by open transactions, with slots

 private:
  bool below_limit(const Consumer& consumer) const {
    const std::int64_t limit = env_.config.max_unacked_per_consumer;
    return limit <= 0 || !env_.durable || consumer.pending.messages() < limit;
  }
  bool subscription_full() const {
    const std::int64_t limit = env_.config.max_unacked_per_subscription;
    return (limit > 0 && env_.durable && unacked_ >= limit) || unacked_.blocked();
  }
  std::size_t look_ahead_limit() const;
  // What is held back; nullptr: nothing.
  const DelayedIndex* held() const {
    const DelayedIndex* index = env_.topic.delayed_index();
    return index == nullptr || index->empty() ? nullptr : index;
  }
  bool delayed_full() const {
    const DelayedIndex* index = held();
    return index != nullptr && index->full();
  }
  // Then the log is not read: what came could find no place, and would be read again and again.
  bool nothing_fits() const { return look_ahead_full() || delayed_full(); }
  // The first position from `from` on that is neither acknowledged nor held back. Gives up after
  // many steps: it may then be one that is held back.
  Position next_to_read(Position from) const;
  // Sent, or in a queue, already?
  bool is_out(Position position);
  void look_at_index_again(const DelayedIndex& index);
  void forget_queued(Position position);
  void serve(Source source);
  void serve_log();
  void serve_replay();
  void serve_parked(Consumer& consumer);
  void collect_due();
  void serve_due();
  bool due_left() const;

  // Taken from the delayed index and not yet given to anybody, in order of due time.
  Ring<Position> due_;
  DelayedItem collected_ = DelayedItem::before_all();
  std::int64_t collected_through_ms_ = -1;  // everything due by then was collected
  std::uint64_t index_revision_ = 0;
  // Up to here, after the index was lost, the log may bring entries that are out already.
  Position reread_until_;
  UnackedCount unacked_;          // the sum over consumers
  std::size_t parked_ = 0;        // the sum over consumers
  std::size_t first_served_ = 0;  // whose parked entries come first this turn
  // Messages of which some chunks were sent, by uuid. Two generations, so that those whose last
  // chunk never comes go away some time.
  std::unordered_map<std::string, Consumer*> chunks_;
  std::unordered_map<std::string, Consumer*> older_chunks_;
  bool chunks_forgotten_ = false;  // some of a generation that went away
  bool from_log_ = false;          // what is being dispatched was not read before
};

}  // namespace geminga
