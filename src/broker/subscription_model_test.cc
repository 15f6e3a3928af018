// Random schedules of everything that clients and the broker may do to a subscription, against a
// model that knows what each client holds. After every step: nothing comes that nobody asked for,
// everything comes in the order that the type promises, permits and counts agree, and if nothing
// moves there is a reason. At the end everything drains. The seed is printed on failure;
// GEMINGA_SEED=n runs that one alone, GEMINGA_RUNS=n so many a type.
#include "broker/model_test_support.h"

namespace geminga {
namespace {

using namespace geminga::testing;

struct Setting {
  SubscriptionType type;
  bool consistent_hashing = true;
  bool out_of_order = false;
  std::string name;
};

bool one_by_one(SubscriptionType type) {
  return type == SubscriptionType::Shared || type == SubscriptionType::KeyShared;
}

class Model {
 public:
  Model(Shard& shard, const Setting& setting, std::uint64_t seed)
      : setting_(setting),
        random_(seed),
        config_(make_config()),
        s_(shard, config_, 1 + chance(8)) {
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
  struct Item {
    Position position;
    std::string key;
    std::uint32_t messages = 1;
    std::uint64_t left = 1;    // bits of messages not acknowledged
    std::uint64_t holder = 0;  // client id; 0: none
    std::uint32_t redeliveries = 0;
  };
  struct Client {
    std::uint64_t id = 0;
    std::shared_ptr<TestOutbox> outbox;
    std::shared_ptr<Consumer> consumer;
    std::int64_t permits = 0;
    std::size_t last = 0;  // index behind the last delivered item; Exclusive and Failover
    bool may_rewind = true;
  };

  static bool failed() { return ::testing::Test::HasFailure(); }
  std::size_t chance(std::size_t n) { return random_() % n; }

  DispatcherConfig make_config() {
    DispatcherConfig config;
    config.key_shared_consistent_hashing = setting_.consistent_hashing;
    config.turn_entries = 1 + chance(40);
    config.max_read_batch_size = 1 + chance(12);
    config.max_round_robin_batch_size = static_cast<std::int64_t>(1 + chance(10));
    config.look_ahead_per_consumer = 3 + chance(30);
    config.look_ahead_per_subscription = 100;
    config.failover_delay = Millis(chance(2));
    if (chance(3) == 0) {
      config.max_unacked_per_consumer = static_cast<std::int64_t>(5 + chance(20));
      config.max_unacked_per_subscription = static_cast<std::int64_t>(10 + chance(40));
    }
    return config;
  }

  Item* item_at(Position p) {
    const auto it = index_.find(p);
    return it == index_.end() ? nullptr : &items_[it->second];
  }

  Task<void> step() {
    switch (chance(12)) {
      case 0:
      case 1: publish(1 + chance(20)); break;
      case 2:
      case 3: flow(); break;
      case 4:
      case 5: ack_some(); break;
      case 6: redeliver(); break;
      case 7: co_await join(); break;
      case 8:
        if (chance(3) == 0) leave();
        break;
      case 9:
        if (chance(6) == 0) co_await crash();
        break;
      case 10:
        if (chance(6) == 0) co_await seek();
        break;
      default: read_again(); break;
    }
    if (chance(3) != 0) co_await settle(s_);
    collect();
    check_counts();
  }

  void publish(std::size_t n) {
    for (; n > 0; --n) {
      Item item;
      item.key = "key-" + std::to_string(chance(12));
      const std::size_t batch = chance(3) == 0 ? 1 + chance(5) : 0;
      item.messages = static_cast<std::uint32_t>(std::max<std::size_t>(batch, 1));
      item.left = full(item);
      item.position = s_.ledger.add({.sequence_id = static_cast<std::int64_t>(items_.size()),
                                     .key = item.key,
                                     .batch = static_cast<std::int32_t>(batch)});
      index_[item.position] = items_.size();
      items_.push_back(item);
    }
    s_.subscription->entries_available();
  }
  static std::uint64_t full(const Item& item) { return (1ULL << item.messages) - 1; }

  Client* any_client() { return clients_.empty() ? nullptr : &clients_[chance(clients_.size())]; }

  void flow() {
    Client* client = any_client();
    if (client == nullptr) return;
    const auto permits = static_cast<std::uint32_t>(1 + chance(chance(4) == 0 ? 100 : 10));
    client->permits += permits;
    s_.subscription->flow(*client->consumer, permits);
  }

  void read_again() {
    Client* client = any_client();
    if (client == nullptr) return;
    client->outbox->window = chance(2) == 0 ? 1 + chance(10) : ~std::size_t{0};
    collect();
    client->outbox->drain();
  }

  std::vector<Item*> held_by(const Client& client) {
    std::vector<Item*> held;
    for (Item& item : items_) {
      if (item.holder == client.id && item.left != 0) held.push_back(&item);
    }
    return held;
  }

  void done(Item& item) {
    item.left = 0;
    item.holder = 0;
  }
  void ack_whole(Client& client, Item& item) {
    s_.ack(*client.consumer, item.position);
    done(item);
  }
  void ack_part(Client& client, Item& item, bool cumulative) {
    const std::uint64_t keep = random_() & full(item) & (chance(2) == 0 ? item.left : ~0ULL);
    const AckSet words = keep == 0 ? AckSet{} : AckSet{keep};
    const std::uint32_t size = chance(2) == 0 ? item.messages : 0;
    if (cumulative) {
      s_.ack_cumulative(*client.consumer, item.position, words, size);
      for (Item& before : items_) {
        if (before.position < item.position) done(before);
      }
    } else {
      s_.ack(*client.consumer, item.position, words, size);
    }
    item.left &= keep;
    if (item.left == 0) done(item);
  }

  void ack_some() {
    Client* client = any_client();
    if (client == nullptr) return;
    auto held = held_by(*client);
    if (held.empty()) return;
    if (!one_by_one(setting_.type) && chance(2) == 0) {
      ack_part(*client, *held[chance(held.size())], true);
      return;
    }
    for (std::size_t n = 1 + chance(8); n > 0 && !held.empty(); --n) {
      const std::size_t i = chance(held.size());
      Client& by = chance(8) == 0 ? *any_client() : *client;
      if (chance(3) == 0) {
        ack_part(by, *held[i], false);
      } else {
        ack_whole(by, *held[i]);
      }
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void redeliver() {
    Client* client = any_client();
    if (client == nullptr) return;
    auto held = held_by(*client);
    std::vector<Position> positions;
    if (one_by_one(setting_.type) && chance(4) != 0) {
      for (Item* item : held) {
        if (chance(3) != 0) continue;
        positions.push_back(item->position);
        give_back(*item);
      }
      if (positions.empty()) return;
    } else {
      for (Item* item : held) give_back(*item);
      client->may_rewind = true;
    }
    s_.subscription->redeliver(*client->consumer, positions, -1);
  }
  void give_back(Item& item) {
    item.holder = 0;
    ++item.redeliveries;
  }

  Task<void> join() {
    if (clients_.size() >= (setting_.type == SubscriptionType::Exclusive ? 1 : 4)) co_return;
    Client client;
    client.id = ++last_id_;
    client.outbox = std::make_shared<TestOutbox>(client.id);
    auto request =
        s_.request(setting_.type, client.id, client.outbox, "c" + std::to_string(chance(5)));
    request.priority_level = static_cast<std::int32_t>(chance(4) == 0);
    if (setting_.type == SubscriptionType::KeyShared) {
      KeySharedOptions options;
      options.allow_out_of_order = setting_.out_of_order;
      request.key_shared = options;
    }
    client.consumer = co_await s_.join(request);
    for (Client& other : clients_) other.may_rewind = true;
    clients_.push_back(std::move(client));
  }

  void leave() {
    if (clients_.empty()) return;
    const std::size_t i = chance(clients_.size());
    for (Item& item : items_) {
      if (item.holder == clients_[i].id) item.holder = 0;
    }
    s_.subscription->remove_consumer(clients_[i].consumer);
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
    for (Client& other : clients_) other.may_rewind = true;
  }

  void everybody_gone() {
    for (const Client& client : clients_) {
      EXPECT_FALSE(client.consumer->attached());
      EXPECT_EQ(client.outbox->events.back(), "close " + std::to_string(client.id));
    }
    clients_.clear();
    for (Item& item : items_) item.holder = 0;
  }

  Task<void> crash() {
    co_await s_.subscription->close(false);
    everybody_gone();
    s_.open();
  }

  Task<void> seek() {
    if (items_.empty()) co_return;
    const std::size_t to = chance(items_.size() + 1);
    const Position target = to == items_.size() ? Position::latest() : items_[to].position;
    const Status status = co_await s_.subscription->seek(target, {});
    EXPECT_TRUE(status.is_ok()) << status.to_string();
    everybody_gone();
    for (std::size_t i = 0; i < items_.size(); ++i) {
      items_[i].left = i < to ? 0 : full(items_[i]);
      items_[i].redeliveries = 0;
    }
  }

  // Takes what was sent to the clients.
  void collect() {
    for (Client& client : clients_) {
      for (const auto& message : client.outbox->messages) received(client, message);
      client.outbox->messages.clear();
    }
    for (Client& client : clients_) client.outbox->drain();
  }

  void received(Client& client, const TestOutbox::Message& message) {
    Item* item = item_at(message.position);
    if (item == nullptr) {
      ADD_FAILURE() << message.position.to_string() << " does not exist";
      return;
    }
    const std::string what =
        message.position.to_string() + " to client " + std::to_string(client.id);
    EXPECT_EQ(message.consumer_id, client.id);
    EXPECT_NE(item->left, 0U) << what << ": was acknowledged";
    EXPECT_GT(client.permits, 0) << what << ": without permits";
    client.permits -= std::popcount(item->left);
    EXPECT_EQ(message.ack_set, item->left == full(*item) ? AckSet{} : AckSet{item->left}) << what;
    if (one_by_one(setting_.type)) {
      EXPECT_EQ(item->holder, 0U) << what << ": a client has it already";
      EXPECT_EQ(message.redelivery_count, item->redeliveries) << what;
      if (setting_.type == SubscriptionType::KeyShared && !setting_.out_of_order)
        check_key_order(client, *item);
    } else {
      EXPECT_EQ(message.redelivery_count, 0U);
      check_order(client, *item);
    }
    item->holder = client.id;
  }

  void check_order(Client& client, const Item& item) {
    const std::size_t at = index_[item.position];
    const auto next = [&](std::size_t from) {
      while (from < items_.size() && items_[from].left == 0) ++from;
      return from;
    };
    if (at != next(client.last)) {
      EXPECT_TRUE(client.may_rewind && at == next(0))
          << item.position.to_string() << " to client " << client.id << " is out of order";
      client.may_rewind = false;
    }
    client.last = at + 1;
  }

  void check_key_order(const Client& client, const Item& item) {
    for (const Item& other : items_) {
      if (other.key != item.key || other.left == 0 || &other == &item) continue;
      if (other.position < item.position) {
        EXPECT_EQ(other.holder, client.id)
            << item.position.to_string() << " of " << item.key << " came to client " << client.id
            << " before " << other.position.to_string() << " was done";
      } else {
        EXPECT_TRUE(other.holder == client.id || other.holder == 0)
            << item.position.to_string() << " of " << item.key << " came to client " << client.id
            << " after " << other.position.to_string() << " went to client " << other.holder;
      }
    }
  }

  void check_counts() {
    std::int64_t backlog = 0;
    std::int64_t messages = 0;
    for (const Item& item : items_) {
      backlog += item.left != 0;
      messages += std::popcount(item.left);
      EXPECT_EQ(s_.cursor->is_acked(item.position), item.left == 0) << item.position.to_string();
    }
    const SubscriptionStats stats = s_.subscription->stats();
    EXPECT_EQ(stats.msg_backlog, backlog);
    EXPECT_EQ(stats.messages_backlog, messages);
    std::int64_t unacked = 0;
    for (Client& client : clients_) {
      EXPECT_EQ(client.consumer->permits(), client.permits);
      EXPECT_GE(client.permits, -4);
      if (!one_by_one(setting_.type)) continue;
      std::int64_t held = 0;
      for (Item* item : held_by(client)) held += std::popcount(item->left);
      EXPECT_EQ(client.consumer->pending.messages(), held);
      unacked += held;
    }
    EXPECT_EQ(stats.unacked_messages, unacked);
    std::size_t counted = 0;
    for (const Item& item : items_) counted += item.redeliveries > 0 && item.left != 0;
    if (one_by_one(setting_.type)) {
      EXPECT_EQ(s_.subscription->redeliveries().size(), counted);
    }
  }

  Task<void> drain_all() {
    if (clients_.empty()) co_await join();
    const auto ack_all = [this](Client& client) {
      for (Item* item : held_by(client)) ack_whole(client, *item);
    };
    co_await drain(
        s_, clients_, [this] { collect(); }, ack_all);
    check_counts();
  }

  const Setting setting_;
  std::mt19937_64 random_;
  const DispatcherConfig config_;
  TestSubscription s_;
  std::vector<Item> items_;  // by position
  std::map<Position, std::size_t> index_;
  std::vector<Client> clients_;
  std::uint64_t last_id_ = 0;
};

class SubscriptionModel : public ::testing::TestWithParam<Setting> {};

TEST_P(SubscriptionModel, KeepsItsPromisesInRandomSchedules) {
  run_seeds(4, [](std::uint64_t seed) {
    run_on_shard([seed](Shard& shard) -> Task<void> {
      Model model(shard, GetParam(), seed);
      co_await model.run(250);
    });
  });
}

INSTANTIATE_TEST_SUITE_P(
    Types, SubscriptionModel,
    ::testing::Values(Setting{SubscriptionType::Exclusive, true, false, "Exclusive"},
                      Setting{SubscriptionType::Failover, true, false, "Failover"},
                      Setting{SubscriptionType::Shared, true, false, "Shared"},
                      Setting{SubscriptionType::KeyShared, true, false, "KeySharedRing"},
                      Setting{SubscriptionType::KeyShared, false, false, "KeySharedSplit"},
                      Setting{SubscriptionType::KeyShared, true, true, "KeySharedOutOfOrder"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace geminga
