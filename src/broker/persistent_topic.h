// A topic that is stored: a managed ledger, its producers and its subscriptions.
//
// Publishing: every item enters one FIFO in the order it came; good ones are appended to the log,
// refused ones only wait for their turn. The log tells persisted() in the same order, so receipts
// and errors leave in the order of the SENDs of each producer. Subscriptions hear of new entries
// once a turn.
//
// Life: open() -> (serving) -> close() or remove(). A failed write ends it: it takes nothing more,
// sends CLOSE_PRODUCER to all, and asks its owner (TopicShard) to unload it; clients come back to a
// fresh one. Nothing that was not confirmed is acknowledged. A full disk alone does not end it:
// producers are closed, and refused until there is room again. Made by TopicShard, used on its
// shard only.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "broker/deduplication.h"
#include "broker/entry_stamp.h"
#include "broker/producer_registry.h"
#include "broker/publish_pacer.h"
#include "broker/ring.h"
#include "broker/subscribe_limiter.h"
#include "broker/subscription_transactions.h"
#include "broker/topic.h"
#include "broker/topic_compaction.h"
#include "broker/topic_settings.h"
#include "broker/transaction_buffer.h"
#include "broker/windowed_rate.h"
#include "managed_ledger/delayed_index.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/async.h"
#include "runtime/gate.h"
#include "runtime/shard.h"

namespace geminga {

struct BrokerConfig;

struct PersistentTopicEnv {  // all outlive the topic
  Shard& shard;
  LedgerStore& ledgers;
  MetadataStore& metadata;
  const BrokerConfig& config;
  // A write failed: unload the topic (not from inside the call).
  std::function<void(const TopicName&)> failed;
  // Has the transaction begun and not ended? Empty: there are no transactions.
  std::function<Task<Result<bool>>(TxnId)> transaction_is_open;
  UnackedBudget* unacked = nullptr;  // of the broker; null: without limit
};

class PersistentTopic final : public Topic,
                              public std::enable_shared_from_this<PersistentTopic>,
                              private PersistSink,
                              private Deferred {
 public:
  // TopicNotFound if it does not exist and may not be created.
  static Task<Result<std::shared_ptr<PersistentTopic>>> open(PersistentTopicEnv env, TopicName name,
                                                             TopicSettings settings,
                                                             bool create_if_missing);
  PersistentTopic(PersistentTopicEnv env, TopicName name);  // use open()
  ~PersistentTopic() override;

  const TopicName& name() const override { return name_; }
  Shard& shard() const override { return env_.shard; }
  bool closing() const override { return closing_ || failed_; }
  void snapshot_if_due(std::int64_t now) override;
  UnackedBudget* unacked_budget() const override { return env_.unacked; }
  void apply(const TopicSettings& settings) override;
  ManagedLedger* managed_ledger() const override { return ledger_.get(); }
  Task<void> check_backlog() override;
  DelayedIndex* delayed_index() const override { return delayed_.get(); }
  Hold hold_if_early(std::int64_t deliver_at_time, Position position) override;
  RateLimiter* dispatch_rate() override { return &dispatch_rate_; }
  Rate incoming() const override;
  TopicCompaction* compaction() const override { return compaction_.get(); }
  void compact_if_due() override;

  Task<Result<ProducerGrant>> add_producer(ProducerRequest request) override;
  Task<void> remove_producer(std::shared_ptr<Producer> producer) override;
  void publish(std::vector<PublishItem>& items) override;

  std::shared_ptr<Subscription> subscription(const std::string& name) const override;
  std::vector<std::string> subscription_names() const override;
  Task<Result<Subscribed>> subscribe(SubscribeRequest request) override;
  Task<Status> create_subscription(std::string name, Position start,
                                   std::map<std::string, std::string> properties) override;
  Task<Status> delete_subscription(std::string name, bool force) override;
  void drop_non_durable(const std::string& name) override;

  // persistent_topic_transactions.cc
  Position max_read_position() const override {
    return transactions_ == nullptr ? Position::latest() : transactions_->max_read_position();
  }
  bool is_aborted(const TxnId& txn) const override {
    return transactions_ != nullptr && transactions_->is_aborted(txn);
  }
  Task<Status> prepare_transactions() override;
  Task<Status> end_transaction(TxnId txn, bool commit, std::int64_t low_watermark) override;
  const TransactionBuffer* transactions() const { return transactions_.get(); }
  // Takes back what transactions did here that their coordinators do not know; done by itself every
  // half a minute.
  Task<void> abort_orphans();

  Task<Result<LastMessage>> last_message_id() override;
  Task<Result<Position>> terminate() override;
  bool terminated() const override { return ledger_->terminated(); }
  Task<Status> close() override;
  Task<Status> remove(bool force) override;

  TopicStats stats() const override;
  TopicSample sample(SampleDetail detail) const override;
  std::size_t producer_count() const override { return producers_.size(); }
  std::size_t consumer_count() const override;

 private:
  enum class TxnPart : std::uint8_t { None, Message, CommitMarker, AbortMarker };
  struct Pending {
    std::shared_ptr<Producer> producer;  // nullptr: a marker of our own
    std::uint64_t sequence_id = 0;
    std::uint64_t highest_sequence_id = 0;
    std::unique_ptr<Status> refused;  // set: was not appended
    bool has_highest = false;
    bool duplicate = false;    // was not appended either
    bool deduplicate = false;  // tell deduplication_ when it is durable
    TxnPart part = TxnPart::None;
    TxnId txn;
    std::int64_t deliver_at_time = 0;
    std::uint32_t messages = 1;  // as sent

    // What deduplication goes by.
    std::int64_t last_of_batch() const {
      return std::max(last_sequence_id(),
                      last_in_batch(static_cast<std::int64_t>(sequence_id), messages));
    }
    std::int64_t last_sequence_id() const {
      const auto first = static_cast<std::int64_t>(sequence_id);
      return has_highest ? std::max(first, static_cast<std::int64_t>(highest_sequence_id)) : first;
    }
  };

  void persisted(Position position, const Status& status) override;
  void add_properties(std::map<std::string, std::string>& properties) override;
  void run_deferred() override;
  void answer_unstored();
  // What the publish rate lets pass.
  void publish_now(std::vector<PublishItem>& items);
  void refuse_too_large(PublishItem& item) const;
  static void refuse_unencrypted(PublishItem& item);
  void refuse_too_late(PublishItem& item) const;
  void deduplicate(PublishItem& item, Pending& pending);
  void answered(Producer& producer);
  void one_less_pending();
  void write_failed(const Status& status);
  Task<void> publishes_drained();
  static Status not_available();
  Status ready_to_serve() const;
  void apply_rates();
  const Rate& dispatch_rate_of(const std::string& subscription) const;
  // --- quotas of the backlog (persistent_topic_backlog.cc) ---
  std::int64_t backlog_bytes() const;
  // nullptr: none.
  const BacklogQuota* exceeded_quota() const;
  Status room_in_backlog() const;
  void watch_backlog_size();
  void act_on(const BacklogQuota& quota);
  Task<void> evict_backlog();
  Task<std::int64_t> oldest_backlog_ms();
  TopicNumbers numbers(std::int64_t now_ns) const;  // without backlog_size

  Task<Result<std::shared_ptr<Subscription>>> find_or_create(const SubscribeRequest& request);
  Status room_for_consumer(SubscriptionType type) const;
  void read_beside_compaction(SubscribeRequest& request) const;
  std::shared_ptr<Subscription> make_subscription(std::shared_ptr<ManagedCursor> cursor);
  Deduplication::Options deduplication_options();
  Task<Status> open_stamp();
  Task<Status> adopt_cursors();
  void make_compaction();
  void hold_log_for_compaction();
  Task<Status> switch_deduplication();
  void make_delayed_index();
  Task<Status> load_delayed_index();
  bool done_with(Position position) const;
  bool anyone_waits_for_due() const;
  Task<void> disconnect_all(bool deleting);
  Task<Status> store_epoch(std::uint64_t epoch);

  // persistent_topic_transactions.cc
  Status check_transaction(const PublishItem& item) const;
  void tell_transactions(const Pending& pending, Position position, const Status& status);
  void append_marker(const TxnId& txn, bool commit);
  Task<Status> end_in_terminated(TxnId txn, bool commit);
  SubscriptionTransactionsEnv subscription_transactions(const std::string& name, bool durable);
  void watch_transactions();
  Task<void> look_after_transactions();

  const PersistentTopicEnv env_;
  const TopicName name_;
  TopicSettings settings_;
  Gate gate_;
  std::unique_ptr<ManagedLedger> ledger_;
  std::unique_ptr<EntryStamp> stamp_;                // null: entries are stored as they come
  std::unique_ptr<Deduplication> deduplication_;     // nullptr: off
  std::unique_ptr<TransactionBuffer> transactions_;  // nullptr: no transaction has sent here
  std::unique_ptr<DelayedIndex> delayed_;            // nullptr: nothing was ever held back
  std::unique_ptr<TopicCompaction> compaction_;
  std::optional<asio::steady_timer> transaction_timer_;
  bool watching_transactions_ = false;
  int looks_since_asked_ = 0;
  // The limits of settings_ that keep state.

  ProducerRegistry producers_;
  std::unique_ptr<PublishPacer> pacer_;  // nullptr: there was no publish rate yet
  RateLimiter dispatch_rate_;
  SubscribeLimiter subscribe_rate_;
  std::map<std::string, std::shared_ptr<Subscription>> subscriptions_;
  std::map<std::string, std::shared_ptr<ManagedCursor>>
      non_durable_;      // cursors of the non-durable ones
  AsyncMutex creating_;  // one subscription is made at a time
  Ring<Pending> pending_;
  std::shared_ptr<Event> drained_;
  bool closing_ = false;
  bool failed_ = false;

  std::int64_t backlog_watched_ns_ = 0;  // when its size was last compared with the quota
  std::int64_t oldest_backlog_ms_ = 0;   // publish time, as of the last check; 0: no backlog
  bool evicting_ = false;
  std::int64_t evictions_by_size_ = 0;
  std::int64_t evictions_by_age_ = 0;

  std::int64_t messages_in_ = 0;
  std::int64_t bytes_in_ = 0;
  std::int64_t duplicates_ = 0;
  WindowedRate message_rate_;
  WindowedRate byte_rate_;
};

}  // namespace geminga
