// What the tests of subscriptions share: a topic, a managed ledger (test_ledger.h) and connections
// in memory, small enough to be obviously right, and a shard to run a test's coroutine on. Test
// code only.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/use_future.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/persistent_subscription.h"
#include "broker/test_ledger.h"
#include "broker/topic.h"
#include "managed_ledger/delayed_index.h"
#include "managed_ledger/testing/memory_ledger_store.h"
#include "managed_ledger/testing/memory_metadata_store.h"

namespace geminga::testing {

// A connection that keeps what it is sent.
class TestOutbox : public Outbox {
 public:
  struct Message {
    std::uint64_t consumer_id;
    Position position;
    std::uint32_t redelivery_count;
    AckSet ack_set;
    std::int64_t epoch;
    std::int32_t partition;
    Buffer entry;
  };
  explicit TestOutbox(std::uint64_t connection = 1, std::string version = "Pulsar-Java-v4") {
    peer_.connection_id = connection;
    peer_.address = "/127.0.0.1:1";
    peer_.client_version = std::move(version);
  }

  std::vector<Message> messages;
  std::vector<std::string> events;  // "active 1", "inactive 1", "close 1", "end 1"
  bool open = true;
  bool alive = true;
  std::size_t window = ~std::size_t{0};  // not writable once so many messages are here
  void drain() {
    messages.clear();
    for (auto* listener : std::vector(listeners.begin(), listeners.end()))
      listener->outbox_writable();
  }
  std::vector<Position> positions() const {
    std::vector<Position> all;
    for (const auto& message : messages) all.push_back(message.position);
    return all;
  }
  std::set<WritableListener*> listeners;

  const PeerInfo& peer() const override { return peer_; }
  bool connected() const override { return open; }
  void send_receipt(std::uint64_t, std::uint64_t, std::uint64_t, Position) override {}
  void send_error(std::uint64_t, std::uint64_t, const Status&) override {}
  void send_message(const Delivery& d, const Buffer& entry) override {
    messages.push_back({d.consumer_id, d.position, d.redelivery_count,
                        AckSet(d.ack_set.begin(), d.ack_set.end()), d.consumer_epoch, d.partition,
                        entry});
  }
  void send_active_consumer_change(std::uint64_t id, bool active) override {
    events.push_back((active ? "active " : "inactive ") + std::to_string(id));
  }
  void send_close_consumer(std::uint64_t id) override {
    events.push_back("close " + std::to_string(id));
  }
  void send_close_producer(std::uint64_t) override {}
  void send_reached_end_of_topic(std::uint64_t id) override {
    events.push_back("end " + std::to_string(id));
  }
  void send_frame(Buffer) override {}
  bool writable() const override { return messages.size() < window; }
  void add_writable_listener(WritableListener* listener) override { listeners.insert(listener); }
  void remove_writable_listener(WritableListener* listener) override { listeners.erase(listener); }
  Task<bool> probe_alive(std::chrono::milliseconds) override {
    co_await sleep_for(Millis{1});
    if (!alive) open = false;
    co_return alive;
  }
  void close_connection(std::string) override { open = false; }

 private:
  PeerInfo peer_;
};

class TestTopic final : public Topic {
 public:
  TestTopic(Shard& shard, const std::string& name, ManagedLedger* ledger)
      : stores(shard),
        keys(shard),
        shard_(shard),
        name_(TopicName::parse(name).value()),
        ledger_(ledger) {}

  std::vector<std::string> dropped;

  // Delayed delivery is on once this was called; `wake` as a topic does.
  void use_index(std::shared_ptr<ManagedCursor> cursor, UniqueFunction<void()> wake,
                 DelayedIndexOptions options = {}) {
    index_ = std::make_unique<DelayedIndex>(
        ManagedLedgerEnv{&shard_, &stores, &keys}, "t/ns/persistent/x", options,
        [cursor = std::move(cursor)](Position p) { return cursor->is_acked(p); }, std::move(wake));
  }
  DelayedIndex* delayed_index() const override { return index_.get(); }
  Hold hold_if_early(std::int64_t deliver_at_time, Position position) override {
    if (index_ == nullptr || deliver_at_time <= std::max(now_ms(), index_->ripe_ms()))
      return Hold::NotEarly;
    return index_->add(deliver_at_time, position) ? Hold::Held : Hold::NoRoom;
  }
  MemoryLedgerStore stores;
  MemoryMetadataStore keys;

  const TopicName& name() const override { return name_; }
  Shard& shard() const override { return shard_; }
  bool closing() const override { return false; }
  ManagedLedger* managed_ledger() const override { return ledger_; }
  Task<Result<ProducerGrant>> add_producer(ProducerRequest) override { co_return no(); }
  Task<void> remove_producer(std::shared_ptr<Producer>) override { co_return; }
  void publish(std::vector<PublishItem>&) override {}
  std::shared_ptr<Subscription> subscription(const std::string&) const override { return nullptr; }
  std::vector<std::string> subscription_names() const override { return {}; }
  Task<Result<Subscribed>> subscribe(SubscribeRequest) override { co_return no(); }
  Task<Status> create_subscription(std::string, Position,
                                   std::map<std::string, std::string>) override {
    co_return no();
  }
  Task<Status> delete_subscription(std::string, bool) override { co_return no(); }
  void drop_non_durable(const std::string& name) override { dropped.push_back(name); }
  Task<Result<LastMessage>> last_message_id() override { co_return no(); }
  Task<Result<Position>> terminate() override { co_return no(); }
  bool terminated() const override { return false; }
  Task<Status> close() override { co_return no(); }
  Task<Status> remove(bool) override { co_return no(); }
  TopicStats stats() const override { return {}; }
  TopicSample sample(SampleDetail) const override { return {}; }
  std::size_t producer_count() const override { return 0; }
  std::size_t consumer_count() const override { return 0; }

 private:
  static Status no() { return Status::Unsupported("not in this double"); }
  Shard& shard_;
  TopicName name_;
  ManagedLedger* ledger_;
  std::unique_ptr<DelayedIndex> index_;
};

// Waits until the deferred work of `n` turns of the shard has run.
inline Task<void> turns(int n = 3) {
  struct TurnEnd final : Deferred {
    Event event;
    void run_deferred() override { event.set(); }
  };
  for (; n > 0; --n) {
    TurnEnd end;
    Shard::current()->defer(end);
    co_await end.event.wait();
    co_await sleep_for(Millis{0});
  }
}

// Runs a test's coroutine on a shard of its own.
template <typename F>
void run_on_shard(F test) {
  Shard shard(0, 1);
  shard.start(-1);
  asio::co_spawn(
      shard.executor(), [&]() -> Task<void> { co_await test(shard); }, asio::use_future)
      .get();
  shard.stop();
}

// A subscription with what it stands on.
struct TestSubscription {
  TestSubscription(Shard& shard_, DispatcherConfig config_ = {},
                   std::int64_t entries_per_ledger = 1'000'000,
                   std::string topic_name = "persistent://t/ns/x")
      : shard(shard_),
        ledger(shard_, entries_per_ledger),
        topic(shard_, topic_name, &ledger),
        cursor(std::make_shared<TestCursor>(ledger)),
        config(config_) {
    open();
    use_index();
  }
  void use_index(DelayedIndexOptions options = {}) {
    topic.use_index(
        cursor, [this] { subscription->entries_available(); }, options);
  }
  void open() {
    subscription =
        std::make_shared<PersistentSubscription>(topic, ledger, cursor, "s", durable, config);
  }
  SubscribeRequest request(SubscriptionType type, std::uint64_t id,
                           std::shared_ptr<TestOutbox> outbox, std::string name = {}) {
    SubscribeRequest r;
    r.outbox = std::move(outbox);
    r.consumer_id = id;
    r.subscription.assign(1, 's');  // = "s" makes GCC 12 see overlapping copies
    r.type = type;
    r.consumer_name = name.empty() ? "c" + std::to_string(id) : std::move(name);
    return r;
  }
  // Adds a consumer that must be let in.
  Task<std::shared_ptr<Consumer>> join(SubscribeRequest r) {
    auto added = co_await subscription->add_consumer(std::move(r));
    EXPECT_TRUE(added.is_ok()) << added.status().to_string();
    co_return added.is_ok() ? *added : nullptr;
  }
  Task<std::shared_ptr<Consumer>> join(SubscriptionType type, std::uint64_t id,
                                       std::shared_ptr<TestOutbox> outbox, std::string name = {}) {
    auto r = request(type, id, std::move(outbox), std::move(name));
    co_return co_await join(std::move(r));
  }
  void publish(const EntrySpec& spec) {
    ledger.add(spec);
    subscription->entries_available();
  }
  void publish_many(int n, EntrySpec spec = {}) {
    for (int i = 0; i < n; ++i) {
      ledger.add(spec);
      ++spec.sequence_id;
    }
    subscription->entries_available();
  }
  void ack(Consumer& consumer, Position position, AckSet remaining = {},
           std::uint32_t batch_size = 0) {
    const AckedMessage message{position, std::move(remaining), batch_size};
    EXPECT_TRUE(subscription->ack(consumer, {false, {&message, 1}}).is_ok());
  }
  void ack_cumulative(Consumer& consumer, Position position, AckSet remaining = {},
                      std::uint32_t batch_size = 0) {
    const AckedMessage message{position, std::move(remaining), batch_size};
    EXPECT_TRUE(subscription->ack(consumer, {true, {&message, 1}}).is_ok());
  }

  Shard& shard;
  TestLedger ledger;
  TestTopic topic;
  std::shared_ptr<TestCursor> cursor;
  DispatcherConfig config;
  bool durable = true;
  std::shared_ptr<PersistentSubscription> subscription;
};

}  // namespace geminga::testing
