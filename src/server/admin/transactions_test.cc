// The admin API of transactions, over a broker in memory.
#include <gtest/gtest.h>

#include "broker/broker_test_support.h"
#include "broker/transactions.h"
#include "server/admin/admin.h"
#include "server/http_router.h"

namespace geminga {
namespace {

constexpr char kTopic[] = "persistent://public/default/t";

class TransactionsAdmin : public testing::BrokerWorld {
 protected:
  Task<std::string> ask(HttpRouter& router, HttpMethod method, std::string target,
                        std::string body = "") {
    HttpRequest request;
    request.method = method;
    EXPECT_TRUE(parse_target("/admin/v3/transactions/" + target, request).is_ok());
    if (!body.empty()) request.headers.emplace_back("content-type", "application/json");
    request.body = std::move(body);
    const HttpResponse response = co_await router.dispatch(request);
    co_return std::to_string(response.status) + ' ' + response.body;
  }
};

TEST_F(TransactionsAdmin, TellsOfAnOpenTransactionAndAbortsIt) {
  run_with_broker([this]() -> Task<void> {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    testing::TestPeer& client = *co_await connected_peer();
    (void)co_await produce(client, kTopic, 1, "p");
    (void)co_await subscribe(client, kTopic, "s", 1);
    Transactions& transactions = broker->transactions();
    const auto txn = co_await transactions.begin(0, Millis{600'000}, "");
    EXPECT_TRUE(txn.is_ok());
    std::vector<std::string> topics{kTopic};
    EXPECT_TRUE((co_await transactions.add_topics(*txn, std::move(topics))).is_ok());
    std::vector<TxnSubscription> subscriptions{{kTopic, "s"}};
    EXPECT_TRUE((co_await transactions.add_subscriptions(*txn, std::move(subscriptions))).is_ok());

    std::string answer = co_await ask(router, HttpMethod::Get, "coordinators");
    EXPECT_EQ(answer, R"x(200 [{"id":0,"brokerServiceUrl":"pulsar://localhost:6650"}])x");
    answer = co_await ask(router, HttpMethod::Get, "coordinatorStats");
    EXPECT_TRUE(answer.starts_with(
        R"x(200 {"0":{"state":"Ready","leastSigBits":0,"lowWaterMark":-1,"ongoingTxnSize":1,)x"))
        << answer;
    answer = co_await ask(router, HttpMethod::Get, "coordinatorStats?coordinatorId=99");
    EXPECT_EQ(answer,
              R"x(404 {"reason":"Transaction coordinator not found! coordinator id : 99"})x");
    answer = co_await ask(router, HttpMethod::Get, "transactionMetadata/0/0");
    EXPECT_TRUE(answer.starts_with(R"x(200 {"txnId":"(0,0)","status":"OPEN","openTimestamp":)x"))
        << answer;
    EXPECT_NE(
        answer.find(R"x("timeoutAt":600000,"producedPartitions":{"persistent://public/default/)x"
                    R"x(t":{"aborted":false}},"ackedPartitions":{"persistent://public/)x"
                    R"x(default/t":{"s":{}}}})x"),
        std::string::npos)
        << answer;
    answer = co_await ask(router, HttpMethod::Get, "slowTransactions/0");
    EXPECT_TRUE(answer.starts_with(R"x(200 {"(0,0)":{"txnId":"(0,0)","status":"OPEN")x")) << answer;
    answer = co_await ask(router, HttpMethod::Get, "slowTransactions/100000");
    EXPECT_EQ(answer, "200 {}");
    answer = co_await ask(router, HttpMethod::Get, "transactionBufferStats/public/default/t");
    EXPECT_TRUE(answer.starts_with(R"x(200 {"state":"Ready","maxReadPosition":")x")) << answer;
    answer = co_await ask(router, HttpMethod::Get, "transactionBufferStats/public/default/missing");
    EXPECT_EQ(answer, R"x(404 {"reason":"Topic persistent://public/default/missing not found"})x");
    answer = co_await ask(router, HttpMethod::Get, "pendingAckStats/public/default/t/s");
    EXPECT_TRUE(answer.starts_with(R"x(200 {"state":"Ready","ongoingTxnSize":0,)x")) << answer;
    answer = co_await ask(router, HttpMethod::Get, "pendingAckStats/public/default/t/missing");
    EXPECT_TRUE(answer.starts_with("404 ")) << answer;
    answer =
        co_await ask(router, HttpMethod::Get, "positionStatsInPendingAck/public/default/t/s/0/7");
    EXPECT_EQ(answer, R"x(200 {"state":"InvalidPosition"})x");
    answer = co_await ask(router, HttpMethod::Get, "coordinatorInternalStats/0");
    EXPECT_TRUE(answer.starts_with(
        R"x(200 {"transactionLogStats":{"managedLedgerName":"pulsar/system/persistent/)x"
        R"x(__transaction_log_0","managedLedgerInternalStats":{"entriesAddedCounter":3,)x"))
        << answer;
    EXPECT_NE(answer.find(R"x("cursors":{"transaction.subscription":{"markDeletePosition":")x"),
              std::string::npos)
        << answer;
    answer = co_await ask(router, HttpMethod::Get, "coordinatorInternalStats/99");
    EXPECT_EQ(answer,
              R"x(404 {"reason":"Transaction coordinator not found! coordinator id : 99"})x");
    answer = co_await ask(router, HttpMethod::Get, "pendingAckInternalStats/public/default/t/s");
    EXPECT_TRUE(answer.starts_with(
        R"x(200 {"pendingAckLogStats":{"managedLedgerName":"public/default/persistent/)x"
        R"x(t-s__transaction_pending_ack","managedLedgerInternalStats":{"entriesAddedCounter":)x"))
        << answer;
    EXPECT_NE(answer.find(R"x("cursors":{"__pending_ack_state":{)x"), std::string::npos) << answer;
    answer =
        co_await ask(router, HttpMethod::Get, "pendingAckInternalStats/public/default/t/missing");
    EXPECT_TRUE(answer.starts_with("404 ")) << answer;
    answer =
        co_await ask(router, HttpMethod::Get, "transactionBufferInternalStats/public/default/t");
    EXPECT_TRUE(answer.starts_with(
        R"x(200 {"snapshotType":"Single","singleSnapshotSystemTopicInternalStats":)x"
        R"x({"managedLedgerName":"public/default/persistent/t",)x"))
        << answer;

    answer = co_await ask(router, HttpMethod::Post, "abortTransaction/0/0");
    EXPECT_EQ(answer, "204 ");
    answer = co_await ask(router, HttpMethod::Get, "transactionMetadata/0/0");
    EXPECT_EQ(answer, R"x(404 {"reason":"The transaction with this txdID `(0,0)`not found "})x");
  });
}

TEST_F(TransactionsAdmin, AddsCoordinators) {
  run_with_broker([this]() -> Task<void> {
    Admin admin{*broker};
    HttpRouter router;
    add_admin_routes(router, admin);
    std::string answer =
        co_await ask(router, HttpMethod::Post, "transactionCoordinator/replicas", "1");
    EXPECT_EQ(answer,
              R"x(406 {"reason":"Number of transaction coordinators should be more than the )x"
              R"x(current number of transaction coordinator"})x");
    answer = co_await ask(router, HttpMethod::Post, "transactionCoordinator/replicas", "3");
    EXPECT_EQ(answer, "204 ");
    const auto begun = co_await broker->transactions().begin(2, Millis{1000}, "");
    EXPECT_TRUE(begun.is_ok());
    EXPECT_EQ(begun->most_bits, 2U);
  });
}

}  // namespace
}  // namespace geminga
