#include "broker/transaction_buffer.h"

#include "PulsarMarkers.pb.h"
#include "managed_ledger/testing/ledger_world.h"
#include "wire/message_encoding.h"

namespace geminga {
namespace {

using testing::LedgerWorld;

constexpr TxnId kOne{0, 1};
constexpr TxnId kTwo{0, 2};
constexpr TxnId kOther{3, 1};

class TransactionBufferTest : public LedgerWorld {
 protected:
  // Appends an entry and tells the buffer of it, as a topic does.
  Task<Position> put(std::optional<TxnId> txn, std::int32_t marker = 0) {
    OutgoingMetadata metadata;
    metadata.producer_name = "p";
    metadata.publish_time = 1;
    metadata.txn = txn;
    metadata.marker_type = marker;
    const std::size_t size = encoded_size(metadata);
    std::string entry(kEntryHeadSize + size, '\0');
    encode(metadata, reinterpret_cast<std::byte*>(entry.data()) + kEntryHeadSize);
    seal_entry(std::as_writable_bytes(std::span(entry)), size);
    append(entry);
    co_await settled();
    co_return sink.outcomes.back().position;
  }
  Task<Position> plain() {
    const Position at = co_await put(std::nullopt);
    buffer->entry_persisted(at);
    co_return at;
  }
  Task<Position> send(TxnId txn) {
    EXPECT_OK(buffer->check_open(txn));
    buffer->message_appended(txn);
    const Position at = co_await put(txn);
    buffer->message_persisted(txn, at);
    co_return at;
  }
  Task<Position> end(TxnId txn, bool commit) {
    bool first = false;
    const auto ending = buffer->start_end(txn, first);
    EXPECT_TRUE(first);
    const Position at =
        co_await put(txn, commit ? pulsar::markers::TXN_COMMIT : pulsar::markers::TXN_ABORT);
    buffer->end_persisted(txn, commit, at);
    EXPECT_TRUE(ending->done.is_set());
    co_return at;
  }
  Task<Status> open_buffer() {
    auto opened = co_await TransactionBuffer::open(*ledger);
    if (!opened) co_return opened.status();
    buffer = std::move(*opened);
    co_return Status::ok();
  }
  // The process dies and comes back.
  Task<Status> crash() {
    buffer.reset();
    GM_CO_RETURN_IF_ERROR(co_await crash_and_open());
    co_return co_await open_buffer();
  }
  bool readable(Position at) const { return at <= buffer->max_read_position(); }

  std::unique_ptr<TransactionBuffer> buffer;
};

TEST_F(TransactionBufferTest, TheOldestOpenTransactionHoldsBackWhatFollows) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await open_buffer());
    const Position before = co_await plain();
    EXPECT_EQ(buffer->max_read_position(), Position::latest());
    const Position one = co_await send(kOne);
    const Position between = co_await plain();
    const Position two = co_await send(kTwo);
    EXPECT_TRUE(readable(before));
    EXPECT_FALSE(readable(one));
    co_await end(kOne, true);
    EXPECT_TRUE(readable(between));
    EXPECT_FALSE(readable(two));
    const Position marker = co_await end(kTwo, false);
    EXPECT_TRUE(readable(marker));
    EXPECT_FALSE(buffer->is_aborted(kOne));
    EXPECT_TRUE(buffer->is_aborted(kTwo));
    EXPECT_EQ(buffer->committed_total(), 1);
    EXPECT_EQ(buffer->aborted_total(), 1);
    CO_ASSERT_OK(co_await close());
  });
}

TEST_F(TransactionBufferTest, WhatHasEndedTakesNoMoreMessages) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await open_buffer());
    co_await send(kOne);
    bool first = false;
    (void)buffer->start_end(kOne, first);
    EXPECT_EQ(buffer->check_open(kOne).code(), ErrorCode::NotAllowed);
    (void)buffer->start_end(kOne, first);
    EXPECT_FALSE(first);  // who comes second waits for the first
    buffer->end_failed(kOne, Status::Io("no disk"));
    co_await send(kOne);  // it may be tried again
    co_await end(kOne, true);
    EXPECT_EQ(buffer->check_open(kOne).code(), ErrorCode::NotAllowed);
    buffer->remember_ended(kTwo);
    EXPECT_EQ(buffer->check_open(kTwo).code(), ErrorCode::NotAllowed);
    buffer->set_low_watermark(0, 5);
    EXPECT_EQ(buffer->check_open({0, 5}).code(), ErrorCode::NotAllowed);
    EXPECT_OK(buffer->check_open({0, 6}));
    EXPECT_OK(buffer->check_open(kOther));  // of another coordinator
    CO_ASSERT_OK(co_await close());
  });
}

TEST_F(TransactionBufferTest, FindsThoseTheirCoordinatorHasForgotten) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await open_buffer());
    co_await send(kOne);
    co_await send({0, 7});
    co_await send(kOther);
    EXPECT_TRUE(buffer->orphans().empty());
    buffer->set_low_watermark(0, 6);
    EXPECT_EQ(buffer->orphans(), std::vector<TxnId>{kOne});
    CO_ASSERT_OK(co_await close());
  });
}

TEST_F(TransactionBufferTest, AMessageThatWasNotStoredLeavesNothing) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await open_buffer());
    buffer->message_appended(kOne);
    buffer->message_failed(kOne);
    EXPECT_FALSE(buffer->is_open(kOne));
    EXPECT_EQ(buffer->max_read_position(), Position::latest());
    CO_ASSERT_OK(co_await close());
  });
}

TEST_F(TransactionBufferTest, ReadsTheLogAfterACrash) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await open_buffer());
    co_await send(kOne);
    co_await end(kOne, false);
    co_await plain();
    const Position two = co_await send(kTwo);
    CO_ASSERT_OK(co_await crash());
    EXPECT_TRUE(buffer->is_aborted(kOne));
    EXPECT_TRUE(buffer->is_open(kTwo));
    EXPECT_EQ(buffer->first_message(kTwo), two);
    EXPECT_FALSE(readable(two));
    CO_ASSERT_OK(co_await close());
  });
}

TEST_F(TransactionBufferTest, ASnapshotCoversWhatIsNotReadAgain) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await open_buffer());
    co_await send(kOne);
    co_await end(kOne, false);
    const Position two = co_await send(kTwo);
    co_await send(kOther);
    buffer->snapshot();
    CO_ASSERT_OK(co_await buffer->flush());
    const Position covered = sink.outcomes.back().position;
    co_await end(kOther, true);
    CO_ASSERT_OK(co_await crash());
    EXPECT_EQ(ledger->cursor(std::string(TransactionBuffer::kCursor))->mark_delete(), covered);
    EXPECT_TRUE(buffer->is_aborted(kOne));
    EXPECT_EQ(buffer->open_transactions(), std::vector<TxnId>{kTwo});
    EXPECT_EQ(buffer->first_message(kTwo), two);
    co_await end(kTwo, true);
    EXPECT_EQ(buffer->max_read_position(), Position::latest());
    CO_ASSERT_OK(co_await close());
  });
}

TEST_F(TransactionBufferTest, AReplayIsAsLongAsTheDistanceOfSnapshots) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await open_buffer());
    co_await send(kOne);  // open all the time
    for (std::int64_t i = 0; i < TransactionBuffer::kSnapshotEntries + 10; ++i) co_await plain();
    const auto cursor = ledger->cursor(std::string(TransactionBuffer::kCursor));
    EXPECT_LE(ledger->entries_between(cursor->mark_delete(), ledger->last_confirmed()), 11);
    CO_ASSERT_OK(co_await cursor->flush());
    CO_ASSERT_OK(co_await crash());
    EXPECT_TRUE(buffer->is_open(kOne));
    CO_ASSERT_OK(co_await close());
  });
}

TEST_F(TransactionBufferTest, ForgetsAbortedTransactionsWhenTheyAreTrimmed) {
  run([this]() -> Task<void> {
    CO_ASSERT_OK(co_await open());
    CO_ASSERT_OK(co_await open_buffer());
    co_await send(kOne);
    co_await end(kOne, false);
    CO_ASSERT_OK(co_await ledger->rollover());
    co_await plain();
    buffer->snapshot();
    CO_ASSERT_OK(co_await ledger->trim());
    EXPECT_TRUE(buffer->is_aborted(kOne));
    buffer->snapshot();
    EXPECT_FALSE(buffer->is_aborted(kOne));
    CO_ASSERT_OK(co_await close());
  });
}

}  // namespace
}  // namespace geminga
