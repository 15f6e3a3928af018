// The delivery engine that all subscription types share: it knows where the subscription reads,
// gets entries from the managed ledger and gives the shard back in time. How entries are shared out
// is the business of the types (dispatcher_exclusive.h, dispatcher_failover.h, dispatcher_shared.h,
// dispatcher_key_shared.h).
//
// Whatever may allow progress (permits, acks, new entries, a client that reads again, a finished
// read) calls schedule(); deliver() then runs once at the end of the turn. It first takes what is
// in memory, synchronously; only for what is not it starts a read, one at a time, and goes on when
// that arrives. A read that was started before the subscription was rewound is recognised by its
// generation and dropped.
//
// Nothing records "blocked" or "idle": why_waiting() derives it from positions and counts. If it
// says None while no turn and no read is under way, entries that could flow do not: the watchdog
// counts, logs and repairs that.
//
// Made and owned by a PersistentSubscription, shared with reads in flight; used on the topic's
// shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/position.h"
#include "broker/consumer.h"
#include "broker/dispatcher_config.h"
#include "broker/explanation.h"
#include "broker/token_bucket.h"
#include "broker/transaction_acks.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/gate.h"
#include "runtime/shard.h"
#include "wire/message_metadata.h"

namespace geminga {

class CompactedReads;
class Topic;

struct SubscriptionCounters {
  RateMeter messages_out, bytes_out, redelivered, acked, expired;
  std::int64_t last_acked_ms = 0, last_consumed_ms = 0, last_flow_ms = 0, last_mark_delete_ms = 0,
               last_expire_ms = 0;
  std::int64_t committed_txns = 0, aborted_txns = 0;
  std::int64_t corrupt_entries = 0;  // passed over: their metadata cannot be read
  std::int64_t headless_chunks = 0;  // passed over: their message began before the cursor
  std::int64_t stalls = 0;           // found by the watchdog
  std::int64_t read_errors = 0;
};

// What a dispatcher stands on; all outlive it.
struct DispatcherEnv {
  Topic& topic;
  ManagedLedger& ledger;
  ManagedCursor& cursor;
  Shard& shard;
  Gate& gate;
  const DispatcherConfig& config;
  const RedeliveryCounts& redeliveries;  // the cursor's
  SubscriptionCounters& counters;
  const std::string& subscription;
  bool durable;
  const TransactionAcks& transaction_acks;
  CompactedReads* compacted = nullptr;  // for consumers that read the compacted topic
  RateLimiter* rate = nullptr;  // of this subscription; of the topic: Topic::dispatch_rate()
};

class Dispatcher : public Deferred,
                   public Consumer::Owner,
                   public std::enable_shared_from_this<Dispatcher> {
 public:
  Dispatcher(const DispatcherEnv& env, SubscriptionType type);
  virtual ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  SubscriptionType type() const { return type_; }
  const std::vector<std::shared_ptr<Consumer>>& consumers() const { return consumers_; }

  // May a consumer with these options join those that are connected? (Same type already.)
  virtual Status admit(const SubscribeRequest& request) const;
  virtual Status add(std::shared_ptr<Consumer> consumer) = 0;
  // One of consumers(). What it had not acknowledged goes to the others. It is detached.
  virtual void remove(Consumer& consumer) = 0;
  virtual void flow(Consumer& consumer, std::uint32_t permits);
  // Individual acknowledgements; the cursor is changed here.
  virtual void ack(Consumer& consumer, const AckedMessage& message) = 0;
  virtual void redeliver(Consumer& consumer, std::span<const Position> positions,
                         std::int64_t epoch) = 0;
  // The mark-delete position was moved by something else than acknowledgements of these consumers
  // (cumulative ack, skip, expiry).
  virtual void mark_delete_moved();
  // What the client acknowledged, numbered as the stored entry is. False: it holds nothing of it.
  virtual bool as_stored(const Consumer&, AckedMessage&) { return true; }
  // A transaction ended; `messages` are those it had acknowledged here. Committed: the cursor
  // knows. Aborted: they are to be delivered again.
  virtual void transaction_ended(std::span<const AckedMessage> messages, bool committed);
  // Open transactions have acknowledged these: entries of which nothing is left count as
  // unacknowledged no more, though their consumer keeps them until the end.
  virtual void acked_in_transaction(std::span<const Position>) {}
  // An acknowledgement of a committed transaction, numbered as the stored entry is.
  virtual void ack_committed(const AckedMessage& message) { ack(*consumers_.front(), message); }
  // Everything not acknowledged is to be delivered again, from the first such entry. Drops reads in
  // flight.
  virtual void rewind();
  // No delivery from now on; a read in flight is ignored.
  virtual void stop();

  // Tells Java clients, once, if the topic was terminated and everything is acknowledged.
  void announce_end_of_topic();

  void entries_available() { schedule(); }
  // A limit of the rate has changed: waiting for the old one ends.
  void rates_changed();
  void consumer_writable() override { schedule(); }
  void run_deferred() override;

  virtual WaitReason why_waiting() const = 0;
  // Why this consumer gets nothing; None if nothing of its own speaks against it.
  virtual WaitReason why_waiting(const Consumer& consumer) const;
  virtual std::int64_t unacked_messages() const { return 0; }
  virtual std::size_t delayed() const { return 0; }
  virtual const Consumer* active_consumer() const { return nullptr; }
  virtual void measure(SubscriptionNumbers& numbers) const;
  // What stats show beside the numbers.
  virtual void describe(SubscriptionStats& stats) const;
  virtual void describe(const Consumer&, ConsumerStats&) const {}
  virtual std::vector<std::string> key_ranges(const Consumer&) const { return {}; }
  // Asked every watch_interval.
  void watch(std::int64_t now);
  Position read_position() const { return read_position_; }

 protected:
  // Where entries come from: the log itself, the entries to be sent again, those that wait for one
  // consumer (`whose`), those that were held back until now, or the topic's compacted data.
  struct Source {
    enum class Kind : std::uint8_t { Log, Replay, Parked, Due, Compacted } kind = Kind::Log;
    const Consumer* whose = nullptr;
    friend bool operator==(const Source&, const Source&) = default;
  };

  // Delivers what can be delivered now, within the turn's budget.
  virtual void deliver() = 0;

  void schedule();
  // Entries from `from` on, at most `max_entries`, into batch(). False: none in memory; if there is
  // something a read is started (unless one is in flight). Parts of what an earlier read brought
  // are used first.
  bool fetch(Source source, Position from, std::size_t max_entries);
  // The entries of the last fetch(); shared by all dispatchers of the thread, valid until the next
  // fetch().
  static std::vector<Entry>& batch();
  // What a finished read was for; deliver() serves it first, so that what was read is used.
  std::optional<Source> arrived() const;
  void drop_arrived() { arrived_.clear(); }
  bool reading() const { return reading_; }

  bool out_of_budget() const { return entries_left_ == 0 || bytes_left_ <= 0; }
  void spend(std::size_t bytes) {
    if (entries_left_ > 0) --entries_left_;
    bytes_left_ -= static_cast<std::int64_t>(bytes);
  }
  // There is an entry at or after `from`, and no open transaction holds it back.
  bool readable(Position from) const;
  // What to wait for when nothing is readable at `from`.
  WaitReason nothing_readable(Position from) const {
    return from <= env_.ledger.last_confirmed() ? WaitReason::OpenTransaction
                                                : WaitReason::NothingToRead;
  }
  // Acknowledged by transactions that are open, with nothing left to deliver.
  bool held_by_transaction(Position position) const {
    return !env_.transaction_acks.empty() &&
           env_.transaction_acks.holds(position, env_.cursor.ack_set(position));
  }
  // Where the log is to be read next.
  Position next_from_log();

  // The metadata of an entry that is to be delivered. Markers, messages of aborted transactions and
  // entries that cannot be understood are acknowledged here, for nobody can consume them: nullopt.
  std::optional<EntryMetadata> admit_entry(const Entry& entry);
  // How many messages of the entry are left to deliver, and the ack set to tell the consumer.
  struct Remaining {
    std::uint32_t messages;
    std::span<const std::uint64_t> ack_set;
  };
  Remaining remaining(const Entry& entry) const;
  void send(Consumer& consumer, const Entry& entry, const Remaining& remaining);
  // Acknowledges in the cursor what the client says. True: the entry is done. `newly` receives how
  // many messages of a partly acknowledged entry this was. `batch_size`: of the entry, 0 if not
  // known.
  bool ack_in_cursor(const AckedMessage& message, std::uint32_t batch_size, std::uint32_t* newly);
  // The parts of why_waiting() that do not depend on the type; None if nothing of it applies.
  WaitReason engine_reason() const;
  std::int64_t now() const { return turn_ms_; }
  // Removes it from consumers() and detaches it.
  std::shared_ptr<Consumer> take_out(Consumer& consumer);
  bool stopped() const { return stopped_; }

  DispatcherEnv env_;
  std::vector<std::shared_ptr<Consumer>> consumers_;
  Position read_position_;  // everything before it was delivered, is acknowledged or waits in a
                            // queue of the type

 private:
  void run_turn();
  void cut_unreadable(std::vector<Entry>& entries) const;
  std::size_t read_cached(Source source, Position from, std::size_t max_entries,
                          std::vector<Entry>& out);
  Task<Result<std::vector<Entry>>> read(Source source, Position from, std::size_t max_entries);
  void start_read(Source source, Position from, std::size_t max_entries);
  void read_done(std::uint64_t generation, Source source, Position from,
                 Result<std::vector<Entry>> result);
  void retry_later(const Status& error);
  // How long the rates of subscription and topic hold everything back; 0: they do not.
  std::int64_t rate_wait_ns();
  void pay_rates(std::uint32_t messages, std::size_t bytes);
  void go_on_after(std::int64_t ns);

  const SubscriptionType type_;
  const std::int32_t partition_;
  bool stopped_ = false;
  bool turn_posted_ = false;
  bool reading_ = false;
  std::uint64_t generation_ = 0;
  std::vector<Entry> arrived_;
  Position arrived_from_;
  Source arrived_source_;
  std::size_t entries_left_ = 0;
  std::int64_t bytes_left_ = 0;
  std::int64_t turn_ms_ = 0;
  Millis retry_after_{0};
  std::optional<asio::steady_timer> retry_timer_;
  bool retrying_ = false;
  std::optional<asio::steady_timer> pace_timer_;
  bool pacing_ = false;        // the timer runs
  bool rate_reached_ = false;  // in this turn
  bool paced_ = false;         // there is a limit, as of the last look
};

}  // namespace geminga
