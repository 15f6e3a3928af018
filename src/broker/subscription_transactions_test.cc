// The durable side of pending acknowledgements: what a crash leaves of them.
#include "broker/subscription_transactions.h"

#include "managed_ledger/testing/ledger_world.h"

namespace geminga {
namespace {

using testing::LedgerWorld;

constexpr TxnId kOne{0, 1};
constexpr TxnId kTwo{0, 2};

class SubscriptionTransactionsTest : public LedgerWorld {
 protected:
  // A topic of six entries, a subscription at its start.
  Task<Status> start() {
    GM_CO_RETURN_IF_ERROR(co_await open());
    if (ledger->total_entries() == 0) co_await append_and_settle(6, 4);
    co_return co_await attach();
  }
  Task<Status> attach() {
    auto opened = co_await ledger->open_cursor("s", InitialPosition::Earliest,
                                               std::map<std::string, std::string>());
    if (!opened) co_return opened.status();
    cursor = *opened;
    SubscriptionTransactionsEnv of;
    of.ledger = env();
    of.log_name = "t/n/persistent/x-s__transaction_pending_ack";
    of.failed = [this](const Status& why) { failure = why; };
    transactions = std::make_unique<SubscriptionTransactions>(std::move(of), *cursor);
    transactions->set_topic_ledger(*ledger);
    co_return co_await transactions->recover();
  }
  Task<void> stop() {
    EXPECT_OK(co_await transactions->close());
    transactions.reset();
    cursor.reset();
    EXPECT_OK(co_await close());
  }
  // The process dies: nothing more is written.
  Task<Status> crash() {
    faults->crash_at(0, false);
    (void)co_await transactions->close();
    transactions.reset();
    cursor.reset();
    GM_CO_RETURN_IF_ERROR(co_await crash_and_open());
    co_return co_await attach();
  }
  Position at(EntryId entry) const { return {ledger->first_position().ledger, entry}; }
  Task<Status> ack(TxnId txn, EntryId entry) { return acknowledge(txn, entry, 0, false); }
  // `left`: the messages of the batch that are not acknowledged.
  Task<Status> ack_part(TxnId txn, EntryId entry, std::uint64_t left) {
    return acknowledge(txn, entry, left, false);
  }
  Task<Status> acknowledge(TxnId txn, EntryId entry, std::uint64_t left, bool cumulative) {
    AckedMessage message;
    message.position = at(entry);
    if (left != 0) message.remaining.push_back(left);
    message.batch_size = 4;
    std::vector<AckedMessage> messages;
    messages.push_back(std::move(message));
    co_return co_await transactions->acknowledge(txn, cumulative, std::move(messages));
  }
  // As a subscription does.
  Task<Status> end(TxnId txn, bool commit) {
    const auto ended = co_await transactions->end(txn, commit);
    if (!ended) co_return ended.status();
    if (ended->has_value() && commit) {
      for (const AckedMessage& message : (*ended)->individual) {
        SubscriptionTransactions::apply(message, false, *ledger, *cursor);
      }
      if ((*ended)->cumulative) {
        SubscriptionTransactions::apply(*(*ended)->cumulative, true, *ledger, *cursor);
      }
    }
    co_return Status::ok();
  }

  std::shared_ptr<ManagedCursor> cursor;
  std::unique_ptr<SubscriptionTransactions> transactions;
  std::optional<Status> failure;
};

TEST_F(SubscriptionTransactionsTest, NeedsToBePrepared) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    EXPECT_EQ((co_await ack(kOne, 0)).code(), ErrorCode::NotAllowed);
    CO_ASSERT_OK(co_await transactions->prepare());
    CO_ASSERT_OK(co_await ack(kOne, 0));
    EXPECT_EQ((co_await ack(kTwo, 0)).code(), ErrorCode::TransactionConflict);
    co_await stop();
  });
}

TEST_F(SubscriptionTransactionsTest, WhatIsOpenIsPendingAfterACrash) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    CO_ASSERT_OK(co_await transactions->prepare());
    CO_ASSERT_OK(co_await ack(kOne, 1));
    CO_ASSERT_OK(co_await ack_part(kTwo, 2, 0b1110));
    CO_ASSERT_OK(co_await crash());
    EXPECT_TRUE(transactions->acks().holds(at(1), nullptr));
    EXPECT_FALSE(transactions->acks().holds(at(2), nullptr));
    EXPECT_EQ((co_await ack_part(kOne, 2, 0b1110)).code(), ErrorCode::TransactionConflict);
    CO_ASSERT_OK(co_await end(kTwo, true));
    CO_ASSERT_OK(co_await end(kOne, false));
    EXPECT_TRUE(transactions->acks().empty());
    EXPECT_FALSE(cursor->is_acked(at(1)));
    EXPECT_NE(cursor->ack_set(at(2)), nullptr);
    co_await stop();
  });
}

TEST_F(SubscriptionTransactionsTest, ACommitThatTheCursorLostIsAppliedAgain) {
  run([this]() -> Task<void> {
    config.cursor_flush_ms = 1'000'000;  // the cursor is not written by itself
    CO_ASSERT_OK(co_await start());
    CO_ASSERT_OK(co_await transactions->prepare());
    CO_ASSERT_OK(co_await ack(kOne, 4));
    CO_ASSERT_OK(co_await acknowledge(kTwo, 1, 0, true));
    CO_ASSERT_OK(co_await end(kOne, true));
    CO_ASSERT_OK(co_await end(kTwo, true));
    CO_ASSERT_OK(co_await crash());
    EXPECT_TRUE(cursor->is_acked(at(4)));
    EXPECT_EQ(cursor->mark_delete(), at(1));
    EXPECT_EQ(cursor->backlog_entries(), 3);
    // Asked for once more, as a coordinator does after a crash: nothing changes.
    CO_ASSERT_OK(co_await end(kOne, true));
    EXPECT_EQ(cursor->backlog_entries(), 3);
    co_await stop();
  });
}

TEST_F(SubscriptionTransactionsTest, ACheckpointMakesReplaysShort) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    CO_ASSERT_OK(co_await transactions->prepare());
    CO_ASSERT_OK(co_await ack(kOne, 5));  // open all the time
    for (std::uint64_t i = 0; i < SubscriptionTransactions::kCheckpointEvery; ++i) {
      const TxnId txn{1, i};
      CO_ASSERT_OK(co_await ack(txn, 0));
      CO_ASSERT_OK(co_await end(txn, false));
    }
    EXPECT_TRUE(transactions->checkpoint_due());
    CO_ASSERT_OK(co_await transactions->checkpoint());
    EXPECT_FALSE(transactions->checkpoint_due());
    CO_ASSERT_OK(co_await crash());
    EXPECT_TRUE(transactions->acks().holds(at(5), nullptr));
    EXPECT_EQ(transactions->acks().transactions(), 1U);
    CO_ASSERT_OK(co_await end(kOne, true));
    EXPECT_TRUE(cursor->is_acked(at(5)));
    co_await stop();
  });
}

TEST_F(SubscriptionTransactionsTest, AFailedWriteEndsItUntilItIsLoadedAgain) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    CO_ASSERT_OK(co_await transactions->prepare());
    CO_ASSERT_OK(co_await ack(kOne, 0));
    faults->decide = [](const std::string& op,
                        const std::string&) -> std::optional<testing::Fault> {
      if (op != "append" && op != "create") return std::nullopt;
      return testing::Fault{Status::Io("the disk is gone"), false};
    };
    EXPECT_FALSE((co_await ack(kOne, 1)).is_ok());
    EXPECT_TRUE(failure.has_value());
    EXPECT_FALSE(transactions->acks().holds(at(1), nullptr));
    faults->decide = nullptr;
    EXPECT_EQ((co_await ack(kTwo, 2)).code(), ErrorCode::ServiceNotReady);
    EXPECT_EQ((co_await end(kOne, true)).code(), ErrorCode::ServiceNotReady);
    CO_ASSERT_OK(co_await crash());
    CO_ASSERT_OK(co_await end(kOne, true));
    EXPECT_TRUE(cursor->is_acked(at(0)));
    co_await stop();
  });
}

TEST_F(SubscriptionTransactionsTest, RemovesItsLog) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await start());
    CO_ASSERT_OK(co_await transactions->prepare());
    CO_ASSERT_OK(co_await ack(kOne, 0));
    CO_ASSERT_OK(co_await transactions->close());
    CO_ASSERT_OK(co_await transactions->remove());
    const auto exists =
        co_await managed_ledger_exists(*metadata, "t/n/persistent/x-s__transaction_pending_ack");
    EXPECT_TRUE(exists.is_ok() && !*exists);
    CO_ASSERT_OK(co_await transactions->remove());  // nothing to do
    transactions.reset();
    cursor.reset();
    CO_ASSERT_OK(co_await close());
  });
}

}  // namespace
}  // namespace geminga
