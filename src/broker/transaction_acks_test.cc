#include "broker/transaction_acks.h"

#include "broker/subscription_test_support.h"

namespace geminga {
namespace {

using namespace geminga::testing;

constexpr TxnId kOne{0, 1};
constexpr TxnId kTwo{0, 2};

// A topic of ten entries of four messages.
struct World {
  explicit World(Shard& shard) : ledger(shard), cursor(ledger) {
    for (int i = 0; i < 10; ++i) p.push_back(ledger.add({.sequence_id = i, .batch = 4}));
  }
  Status ack(TxnId txn, Position position, AckSet remaining = {}) {
    const AckedMessage message{position, std::move(remaining), 4};
    return acks.acknowledge(txn, {false, {&message, 1}}, cursor);
  }
  Status ack_cumulative(TxnId txn, Position position, AckSet remaining = {}) {
    const AckedMessage message{position, std::move(remaining), 4};
    return acks.acknowledge(txn, {true, {&message, 1}}, cursor);
  }
  bool holds(Position position) { return acks.holds(position, cursor.ack_set(position)); }

  TestLedger ledger;
  TestCursor cursor;
  TransactionAcks acks;
  std::vector<Position> p;
};

TEST(TransactionAcks, AMessageBelongsToOneTransaction) {
  run_on_shard([](Shard& shard) -> Task<void> {
    World w(shard);
    EXPECT_TRUE(w.ack(kOne, w.p[0]).is_ok());
    EXPECT_EQ(w.ack(kTwo, w.p[0]).code(), ErrorCode::TransactionConflict);
    EXPECT_EQ(w.ack(kOne, w.p[0]).code(), ErrorCode::TransactionConflict);
    EXPECT_TRUE(w.ack(kTwo, w.p[1]).is_ok());
    w.cursor.ack(w.p[2], 4);
    EXPECT_EQ(w.ack(kOne, w.p[2]).code(), ErrorCode::TransactionConflict);
    EXPECT_TRUE(w.holds(w.p[0]));
    EXPECT_FALSE(w.holds(w.p[3]));
    EXPECT_EQ(w.acks.open(), (std::vector<TxnId>{kOne, kTwo}));
    co_return;
  });
}

TEST(TransactionAcks, ABatchMayBeShared) {
  run_on_shard([](Shard& shard) -> Task<void> {
    World w(shard);
    EXPECT_TRUE(w.ack(kOne, w.p[0], {0b1110}).is_ok());  // message 0
    EXPECT_TRUE(w.ack(kTwo, w.p[0], {0b1001}).is_ok());  // 1 and 2
    EXPECT_EQ(w.ack(kTwo, w.p[0], {0b1110}).code(), ErrorCode::TransactionConflict);
    EXPECT_EQ(w.ack(kTwo, w.p[0]).code(), ErrorCode::TransactionConflict);
    EXPECT_FALSE(w.holds(w.p[0]));
    AckSet left;
    EXPECT_TRUE(w.acks.reduce(w.p[0], left));
    EXPECT_EQ(left, AckSet{0b1000});
    EXPECT_TRUE(w.ack(kOne, w.p[0], {0b0111}).is_ok());  // message 3, the last one
    EXPECT_TRUE(w.holds(w.p[0]));

    const auto ended = w.acks.take(kOne);
    EXPECT_TRUE(ended.has_value());
    EXPECT_EQ(ended->individual.size(), 2U);
    EXPECT_FALSE(w.holds(w.p[0]));
    left.clear();
    EXPECT_TRUE(w.acks.reduce(w.p[0], left));
    EXPECT_EQ(left, AckSet{0b1001});
    // What the cursor has is not acknowledged again.
    w.cursor.ack_partly(w.p[1], AckSet{0b1110}, 4, nullptr);
    EXPECT_EQ(w.ack(kOne, w.p[1], {0b1110}).code(), ErrorCode::TransactionConflict);
    EXPECT_TRUE(w.ack(kOne, w.p[1], {0b0001}).is_ok());
    EXPECT_TRUE(w.holds(w.p[1]));
    co_return;
  });
}

TEST(TransactionAcks, ARequestIsTakenWhollyOrNotAtAll) {
  run_on_shard([](Shard& shard) -> Task<void> {
    World w(shard);
    EXPECT_TRUE(w.ack(kTwo, w.p[1]).is_ok());
    const std::vector<AckedMessage> both = {{w.p[0], {}, 4}, {w.p[1], {}, 4}};
    EXPECT_EQ(w.acks.acknowledge(kOne, {false, both}, w.cursor).code(),
              ErrorCode::TransactionConflict);
    EXPECT_FALSE(w.holds(w.p[0]));
    EXPECT_FALSE(w.acks.contains(kOne));
    EXPECT_TRUE(w.ack(kTwo, w.p[0]).is_ok());
    co_return;
  });
}

TEST(TransactionAcks, OneTransactionAcknowledgesCumulatively) {
  run_on_shard([](Shard& shard) -> Task<void> {
    World w(shard);
    EXPECT_TRUE(w.ack_cumulative(kOne, w.p[3]).is_ok());
    EXPECT_EQ(w.ack_cumulative(kTwo, w.p[5]).code(), ErrorCode::TransactionConflict);
    EXPECT_EQ(w.ack_cumulative(kOne, w.p[2]).code(), ErrorCode::TransactionConflict);
    EXPECT_TRUE(w.ack_cumulative(kOne, w.p[4], {0b1000}).is_ok());
    EXPECT_TRUE(w.ack_cumulative(kOne, w.p[4]).is_ok());
    // The last one could not be written.
    const AckedMessage last{w.p[4], {}, 4};
    w.acks.take_back(kOne, {true, {&last, 1}});
    const auto ended = w.acks.take(kOne);
    EXPECT_TRUE(ended && ended->cumulative);
    EXPECT_EQ(ended->cumulative->remaining, AckSet{0b1000});
    EXPECT_TRUE(w.acks.empty());
    EXPECT_TRUE(w.ack_cumulative(kTwo, w.p[5]).is_ok());
    w.cursor.ack_cumulative(w.p[7]);
    w.acks.take(kTwo);
    EXPECT_EQ(w.ack_cumulative(kTwo, w.p[7]).code(), ErrorCode::TransactionConflict);
    EXPECT_FALSE(w.acks.take(kTwo).has_value());
    co_return;
  });
}

}  // namespace
}  // namespace geminga
