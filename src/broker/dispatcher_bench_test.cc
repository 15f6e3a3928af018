// How long it takes to deliver one entry that is in memory, header encoded and small entry copied
// as a connection's outbox does it. Not run by default:
//   broker_test --gtest_also_run_disabled_tests --gtest_filter='*DispatcherBench*'
#include <ctime>

#include "broker/subscription_test_support.h"
#include "wire/command.h"

namespace geminga {
namespace {

using namespace geminga::testing;

// One ledger in one array, so that what is measured is the dispatcher.
class ArrayLedger final : public TestLedger {
 public:
  ArrayLedger(Shard& shard, std::size_t n) : TestLedger(shard) {
    for (std::size_t i = 0; i < n; ++i) {
      EntrySpec spec;
      spec.producer = "standalone-0-1";
      spec.sequence_id = static_cast<std::int64_t>(i);
      spec.publish_time = 1'700'000'000'000;
      spec.key = "key-" + std::to_string(i % 1000);
      spec.payload = std::string(100, 'x');
      entries_.push_back({{10, static_cast<EntryId>(i)}, make_test_entry(spec), 1});
    }
  }
  Position last_confirmed() const override {
    return {10, static_cast<EntryId>(entries_.size()) - 1};
  }
  Position normalize(Position p) const override { return p; }
  bool exists(Position p) const override { return p <= last_confirmed(); }
  std::size_t read_cached(Position from, std::size_t max_entries, std::size_t,
                          std::vector<Entry>& out) override {
    const auto at = static_cast<std::size_t>(from.entry);
    const std::size_t n = std::min(max_entries, entries_.size() - at);
    out.insert(out.end(), entries_.begin() + from.entry,
               entries_.begin() + from.entry + static_cast<EntryId>(n));
    return n;
  }

 private:
  std::vector<Entry> entries_;
};

class EncodingOutbox final : public Outbox {
 public:
  const PeerInfo& peer() const override { return peer_; }
  bool connected() const override { return true; }
  void send_receipt(std::uint64_t, std::uint64_t, std::uint64_t, Position) override {}
  void send_error(std::uint64_t, std::uint64_t, const Status&) override {}
  void send_message(const Delivery& d, const Buffer& entry) override {
    MessageHeader header;
    header.consumer_id = d.consumer_id;
    header.message_id = d.position;
    header.partition = d.partition;
    header.redelivery_count = d.redelivery_count;
    header.ack_set = d.ack_set;
    header.entry_size = entry.size();
    if (frames_.size() - used_ < encoded_size(header) + entry.size()) used_ = 0;
    std::byte* end = encode(header, frames_.data() + used_);
    std::memcpy(end, entry.data(), entry.size());
    used_ = static_cast<std::size_t>(end - frames_.data()) + entry.size();
    ++sent;
  }
  void send_active_consumer_change(std::uint64_t, bool) override {}
  void send_close_consumer(std::uint64_t) override {}
  void send_close_producer(std::uint64_t) override {}
  void send_reached_end_of_topic(std::uint64_t) override {}
  void send_frame(Buffer) override {}
  bool writable() const override { return true; }
  void add_writable_listener(WritableListener*) override {}
  void remove_writable_listener(WritableListener*) override {}
  Task<bool> probe_alive(std::chrono::milliseconds) override { co_return true; }
  void close_connection(std::string) override {}

  std::size_t sent = 0;

 private:
  PeerInfo peer_;
  std::vector<std::byte> frames_ = std::vector<std::byte>(1 << 16);
  std::size_t used_ = 0;
};

// CPU time, for other work on the machine shall not count.
std::int64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void measure(SubscriptionType type, std::size_t consumers) {
  run_on_shard([&](Shard& shard) -> Task<void> {
    constexpr std::size_t kEntries = 400'000;
    ArrayLedger ledger(shard, kEntries);
    TestTopic topic(shard, "persistent://t/ns/x", &ledger);
    auto cursor = std::make_shared<TestCursor>(ledger);
    DispatcherConfig config;
    config.max_unacked_per_consumer = 0;
    config.max_unacked_per_subscription = 0;
    config.failover_delay = Millis{0};
    auto subscription =
        std::make_shared<PersistentSubscription>(topic, ledger, cursor, "s", true, config);
    auto outbox = std::make_shared<EncodingOutbox>();
    std::vector<std::shared_ptr<Consumer>> joined;
    for (std::size_t i = 0; i < consumers; ++i) {
      SubscribeRequest request;
      request.outbox = outbox;
      request.consumer_id = i;
      request.type = type;
      request.consumer_name = "c" + std::to_string(i);
      joined.push_back((co_await subscription->add_consumer(request)).value());
    }
    const std::int64_t began = thread_cpu_ns();
    for (auto& consumer : joined) subscription->flow(*consumer, kEntries);
    while (outbox->sent < kEntries) co_await turns(1);
    const double ns = static_cast<double>(thread_cpu_ns() - began) / kEntries;
    std::printf("%-10s %2zu consumers: %.0f ns an entry\n", std::string(to_string(type)).c_str(),
                consumers, ns);
    co_await subscription->close(false);
  });
}

TEST(DispatcherBench, DISABLED_NanosecondsAnEntry) {
  measure(SubscriptionType::Exclusive, 1);
  measure(SubscriptionType::Failover, 1);
  measure(SubscriptionType::Shared, 1);
  measure(SubscriptionType::Shared, 10);
  measure(SubscriptionType::KeyShared, 1);
  measure(SubscriptionType::KeyShared, 10);
}

}  // namespace
}  // namespace geminga
