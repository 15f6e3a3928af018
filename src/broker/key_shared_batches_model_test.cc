// Random schedules for a Key_Shared subscription whose batches hold messages of different keys,
// against a model that follows each single message: who has it, in which numbering its client knows
// it, whether it was acknowledged. A key's messages come in order, to one consumer at a time; an
// acknowledgement covers what its client was shown and nothing else; at the end everything drains.
// Clients are of three kinds: they acknowledge entries as a whole, or single messages of a batch,
// of a version that the broker shows parts by ack set, or of one that it does not. The seed is
// printed on failure; GEMINGA_SEED=n runs that one alone, GEMINGA_RUNS=n so many.
#include "broker/batch_parts.h"
#include "broker/model_test_support.h"
#include "wire/batch.h"

namespace geminga {
namespace {

using namespace geminga::testing;

class BatchModel {
 public:
  BatchModel(Shard& shard, bool consistent_hashing, std::uint64_t seed)
      : random_(seed), s_(shard, make_config(consistent_hashing), 1 + chance(8)) {
    s_.ledger.random.seed(seed);
    s_.ledger.cold_percent = static_cast<int>(std::array{0, 30, 100}[chance(3)]);
  }

  Task<void> run(int steps) {
    for (int i = 0; i < steps && !failed(); ++i) co_await step();
    co_await drain_all();
    clients_.clear();
    co_await s_.subscription->close(false);
  }

 private:
  struct Message {
    Position position;
    std::string key;
    bool left = true;
    std::uint64_t holder = 0;
  };
  // What a client got for one position, and has not given back.
  struct Delivered {
    Position position;
    std::vector<std::size_t> messages;  // by the client's numbering; none: not shown to it
    std::vector<bool> acked;
    std::size_t shown = 0;
  };
  static constexpr std::size_t kHidden = ~std::size_t{0};
  enum class Kind : std::uint8_t { Whole, ByIndexJava, ByIndexOther };
  struct Client {
    std::uint64_t id = 0;
    Kind kind = Kind::Whole;
    std::shared_ptr<TestOutbox> outbox;
    std::shared_ptr<Consumer> consumer;
    std::int64_t permits = 0;
    std::vector<Delivered> has;
  };

  static bool failed() { return ::testing::Test::HasFailure(); }
  std::size_t chance(std::size_t n) { return random_() % n; }

  DispatcherConfig make_config(bool consistent_hashing) {
    DispatcherConfig config;
    config.key_shared_consistent_hashing = consistent_hashing;
    config.turn_entries = 1 + chance(40);
    config.max_read_batch_size = 1 + chance(12);
    config.look_ahead_per_consumer = 3 + chance(30);
    config.look_ahead_per_subscription = 100;
    if (chance(3) == 0) {
      config.max_unacked_per_consumer = static_cast<std::int64_t>(10 + chance(20));
      config.max_unacked_per_subscription = static_cast<std::int64_t>(20 + chance(60));
    }
    return config;
  }

  Task<void> step() {
    switch (chance(12)) {
      case 0:
      case 1:
      case 2: publish(1 + chance(8)); break;
      case 3:
      case 4: flow(); break;
      case 5:
      case 6:
      case 7: ack_some(); break;
      case 8: redeliver(); break;
      case 9: co_await join(); break;
      case 10:
        if (chance(3) == 0) leave();
        break;
      default:
        if (chance(8) == 0) co_await crash();
        break;
    }
    if (chance(3) != 0) co_await settle(s_);
    collect();
    check_counts();
  }

  void publish(std::size_t n) {
    for (; n > 0; --n) {
      std::vector<std::string> keys;
      std::vector<std::string> texts;
      const std::size_t first = messages_.size();
      for (std::size_t count = 1 + chance(7); count > 0; --count) {
        keys.push_back(chance(15) == 0 ? "" : "key-" + std::to_string(chance(12)));
        texts.push_back(std::to_string(messages_.size()));
        messages_.push_back({{}, keys.back()});
      }
      EntrySpec spec;
      spec.sequence_id = static_cast<std::int64_t>(first);
      if (keys.size() == 1 && chance(2) == 0) {
        spec.key = keys[0];
        spec.payload = texts[0];
      } else {
        spec.key = chance(2) == 0 ? keys[0] : "";
        spec.batch = static_cast<std::int32_t>(keys.size());
        spec.payload = batch_of(keys, texts);
      }
      const Position position = s_.ledger.add(spec);
      for (std::size_t i = first; i < messages_.size(); ++i) {
        messages_[i].position = position;
        // Those without a key have the entry's own.
        if (messages_[i].key.empty()) messages_[i].key = "none-" + position.to_string();
      }
    }
    s_.subscription->entries_available();
  }

  Client* any_client() { return clients_.empty() ? nullptr : &clients_[chance(clients_.size())]; }

  void flow() {
    Client* client = any_client();
    if (client == nullptr) return;
    const auto permits = static_cast<std::uint32_t>(1 + chance(chance(4) == 0 ? 100 : 10));
    client->permits += permits;
    s_.subscription->flow(*client->consumer, permits);
  }

  void ack(Client& client, std::size_t at, std::size_t index) {
    Delivered& delivered = client.has[at];
    const std::size_t message = delivered.messages[index];
    if (message == kHidden || delivered.acked[index]) return;
    delivered.acked[index] = true;
    AckSet remaining = no_bits(delivered.messages.size());
    std::size_t done = 0;
    bool any_left = false;
    for (std::size_t i = 0; i < delivered.messages.size(); ++i) {
      done += delivered.acked[i];
      if (!delivered.acked[i]) {
        put_bit(remaining, i);
        any_left = true;
      }
    }
    const auto acked = [&](std::size_t of) {
      messages_[of].left = false;
      messages_[of].holder = 0;
    };
    const auto size = static_cast<std::uint32_t>(delivered.messages.size());
    if (client.kind == Kind::Whole) {
      // Tells when it is through with all it believes to be there: hidden ones count.
      if (any_left) return;
      for (const std::size_t of : delivered.messages) acked(of);
      s_.ack(*client.consumer, delivered.position);
    } else if (any_left) {
      acked(message);
      s_.ack(*client.consumer, delivered.position, remaining, size);
    } else {
      acked(message);
      s_.ack(*client.consumer, delivered.position);
    }
    if (done == delivered.shown)
      client.has.erase(client.has.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void ack_some() {
    Client* client = any_client();
    if (client == nullptr) return;
    for (std::size_t n = 1 + chance(20); n > 0 && !client->has.empty(); --n) {
      const std::size_t at = chance(client->has.size());
      ack(*client, at, chance(client->has[at].messages.size()));
    }
  }

  void give_back(Client& client, std::size_t at) {
    for (const std::size_t message : client.has[at].messages) {
      if (message != kHidden) messages_[message].holder = 0;
    }
    client.has.erase(client.has.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void redeliver() {
    Client* client = any_client();
    if (client == nullptr || client->has.empty()) return;
    std::vector<Position> positions;
    if (chance(4) != 0) {
      const std::size_t at = chance(client->has.size());
      positions.push_back(client->has[at].position);
      give_back(*client, at);
    } else {
      while (!client->has.empty()) give_back(*client, 0);
    }
    s_.subscription->redeliver(*client->consumer, positions, -1);
  }

  Task<void> join() {
    if (clients_.size() >= 4) co_return;
    Client client;
    client.id = ++last_id_;
    client.kind = std::array{Kind::Whole, Kind::ByIndexJava, Kind::ByIndexOther}[chance(3)];
    client.outbox = std::make_shared<TestOutbox>(
        client.id, client.kind == Kind::ByIndexOther ? "Pulsar Go 0.19.0" : "Pulsar-Java-v4.0.8");
    client.consumer = co_await s_.join(SubscriptionType::KeyShared, client.id, client.outbox);
    clients_.push_back(std::move(client));
  }

  void leave() {
    if (clients_.empty()) return;
    const std::size_t i = chance(clients_.size());
    while (!clients_[i].has.empty()) give_back(clients_[i], 0);
    s_.subscription->remove_consumer(clients_[i].consumer);
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  Task<void> crash() {
    co_await s_.subscription->close(false);
    clients_.clear();
    for (Message& message : messages_) message.holder = 0;
    s_.open();
  }

  void collect() {
    for (Client& client : clients_) {
      for (const auto& message : client.outbox->messages) received(client, message);
      client.outbox->messages.clear();
    }
    for (Client& client : clients_) client.outbox->drain();
  }

  void received(Client& client, const TestOutbox::Message& message) {
    const std::string what =
        message.position.to_string() + " to client " + std::to_string(client.id);
    const auto metadata = parse_entry_metadata(message.entry.span());
    if (!metadata) {
      ADD_FAILURE() << what << ": " << metadata.status().to_string();
      return;
    }
    std::vector<std::string> texts;
    const Buffer payload = *batch_payload(message.entry, *metadata);
    if (metadata->is_batch) {
      BatchReader reader(payload.span(), metadata->num_messages);
      while (const auto single = reader.next()) {
        texts.emplace_back(reinterpret_cast<const char*>(single->payload.data()),
                           single->payload.size());
      }
      EXPECT_TRUE(reader.ok()) << what;
    } else {
      texts.emplace_back(payload.view());
    }
    EXPECT_GT(client.permits, 0) << what << ": without permits";
    for (const Delivered& other : client.has) EXPECT_NE(other.position, message.position) << what;
    Delivered delivered;
    delivered.position = message.position;
    delivered.acked.assign(texts.size(), false);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (!message.ack_set.empty() && !has_bit(message.ack_set, i)) {
        delivered.messages.push_back(kHidden);
        continue;
      }
      const std::size_t number = std::stoul(texts[i]);
      Message& of = messages_.at(number);
      EXPECT_EQ(of.position, message.position) << what;
      EXPECT_TRUE(of.left) << what << ": message " << number << " was acknowledged";
      EXPECT_EQ(of.holder, 0U) << what << ": message " << number << " is held by another";
      check_key_order(client, number);
      of.holder = client.id;
      delivered.messages.push_back(number);
      ++delivered.shown;
      --client.permits;
    }
    if (client.kind != Kind::ByIndexJava) {
      EXPECT_TRUE(message.ack_set.empty()) << what << ": a part that the client never finishes";
    }
    EXPECT_GT(delivered.shown, 0U) << what << ": nothing to see";
    client.has.push_back(std::move(delivered));
  }

  void check_key_order(const Client& client, std::size_t number) {
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const Message& other = messages_[i];
      if (i == number || other.key != messages_[number].key || !other.left) continue;
      if (i < number) {
        EXPECT_EQ(other.holder, client.id) << "message " << number << " of " << other.key
                                           << " came before message " << i << " was done";
      } else {
        EXPECT_TRUE(other.holder == client.id || other.holder == 0)
            << "message " << number << " of " << other.key << " came to client " << client.id
            << " after message " << i << " went to client " << other.holder;
      }
    }
  }

  void check_counts() {
    std::int64_t left = 0;
    for (const Message& message : messages_) left += message.left;
    const SubscriptionStats stats = s_.subscription->stats();
    EXPECT_EQ(stats.messages_backlog, left);
    std::int64_t unacked = 0;
    for (const Client& client : clients_) {
      EXPECT_EQ(client.consumer->permits(), client.permits);
      std::int64_t held = 0;
      for (const Message& message : messages_) held += message.left && message.holder == client.id;
      EXPECT_EQ(client.consumer->pending.messages(), held);
      unacked += held;
    }
    EXPECT_EQ(stats.unacked_messages, unacked);
  }

  Task<void> drain_all() {
    if (clients_.empty()) co_await join();
    const auto ack_all = [this](Client& client) {
      while (!client.has.empty()) {
        const std::size_t before = client.has.size();
        for (std::size_t i = 0; client.has.size() == before; ++i) ack(client, 0, i);
      }
    };
    co_await drain(
        s_, clients_, [this] { collect(); }, ack_all);
    check_counts();
  }

  std::mt19937_64 random_;
  TestSubscription s_;
  std::vector<Message> messages_;  // in the order of the log
  std::vector<Client> clients_;
  std::uint64_t last_id_ = 0;
};

class KeySharedBatchModel : public ::testing::TestWithParam<bool> {};

TEST_P(KeySharedBatchModel, KeepsKeysInOrderInRandomSchedules) {
  run_seeds(20, [](std::uint64_t seed) {
    run_on_shard([seed](Shard& shard) -> Task<void> {
      BatchModel model(shard, GetParam(), seed);
      co_await model.run(250);
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Selectors, KeySharedBatchModel, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "Ring" : "Split"; });

}  // namespace
}  // namespace geminga
