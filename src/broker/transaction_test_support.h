// For tests: a broker in memory and what a client does with transactions: each command with its
// answer, and what comes of it.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/broker_test_support.h"
#include "wire/message_metadata.h"

namespace geminga::testing {

class TransactionWorld : public BrokerWorld {
 protected:
  using Command = pulsar::proto::BaseCommand;

  // SEND; gives the broker's answer. The transaction may be named in the command, the metadata or
  // both.
  Task<Command> send(TestPeer& peer, std::uint64_t producer_id, std::string payload,
                     std::optional<TxnId> txn, std::optional<TxnId> in_metadata) {
    OutgoingMetadata message;
    message.producer_name = "p";
    message.sequence_id = static_cast<std::int64_t>(sequence_);
    message.publish_time = 1;
    message.txn = in_metadata;
    peer.send_message(producer_id, sequence_++, make_entry(message, payload), {}, 1, txn);
    co_return co_await peer.next();
  }
  Task<Command> send(TestPeer& peer, std::uint64_t producer_id, std::string payload,
                     std::optional<TxnId> txn = {}) {
    co_return co_await send(peer, producer_id, std::move(payload), txn, txn);
  }
  Task<TxnId> begin(TestPeer& peer, std::uint64_t ttl_ms = 60'000) {
    Command command;
    command.set_type(Command::NEW_TXN);
    command.mutable_newtxn()->set_request_id(1);
    command.mutable_newtxn()->set_txn_ttl_millis(ttl_ms);
    peer.send(command);
    const Command answer = co_await peer.next();
    EXPECT_EQ(answer.type(), Command::NEW_TXN_RESPONSE);
    EXPECT_FALSE(answer.newtxnresponse().has_error()) << answer.newtxnresponse().message();
    co_return TxnId{answer.newtxnresponse().txnid_most_bits(),
                    answer.newtxnresponse().txnid_least_bits()};
  }
  Task<Command> add_topic(TestPeer& peer, TxnId txn, std::string topic) {
    Command command;
    command.set_type(Command::ADD_PARTITION_TO_TXN);
    auto& add = *command.mutable_addpartitiontotxn();
    add.set_request_id(2);
    add.set_txnid_least_bits(txn.least_bits);
    add.set_txnid_most_bits(txn.most_bits);
    add.add_partitions(topic);
    peer.send(command);
    co_return co_await peer.next();
  }
  Task<Command> add_subscription(TestPeer& peer, TxnId txn, std::string topic,
                                 std::string subscription) {
    Command command;
    command.set_type(Command::ADD_SUBSCRIPTION_TO_TXN);
    auto& add = *command.mutable_addsubscriptiontotxn();
    add.set_request_id(3);
    add.set_txnid_least_bits(txn.least_bits);
    add.set_txnid_most_bits(txn.most_bits);
    add.add_subscription()->set_topic(topic);
    add.mutable_subscription(0)->set_subscription(subscription);
    peer.send(command);
    co_return co_await peer.next();
  }
  static void ask_end(TestPeer& peer, TxnId txn, bool commit) {
    Command command;
    command.set_type(Command::END_TXN);
    auto& end = *command.mutable_endtxn();
    end.set_request_id(4);
    end.set_txnid_least_bits(txn.least_bits);
    end.set_txnid_most_bits(txn.most_bits);
    end.set_txn_action(commit ? proto::COMMIT : proto::ABORT);
    peer.send(command);
  }
  // END_TXN; the payloads of messages that come before its answer are collected.
  Task<Command> end(TestPeer& peer, TxnId txn, bool commit) {
    ask_end(peer, txn, commit);
    Command answer = co_await peer.next();
    while (answer.type() == Command::MESSAGE) {
      came_.push_back(payload_of(peer));
      answer = co_await peer.next();
    }
    co_return answer;
  }
  static std::string payload_of(TestPeer& peer) {
    const auto metadata = parse_entry_metadata(std::as_bytes(std::span(peer.rest())));
    return metadata ? peer.rest().substr(metadata->payload_offset) : "?";
  }
  // The payloads that come until nothing does for a while, sorted, with spaces between them.
  Task<std::string> received(TestPeer& peer) {
    std::vector<std::string> payloads = std::exchange(came_, {});
    for (;;) {
      for (int i = 0; i < 30 && peer.silent(); ++i) co_await sleep_for(Millis(1));
      if (peer.silent()) break;
      const Command command = co_await peer.next();
      if (command.type() != Command::MESSAGE) continue;
      last_id_ = command.message().message_id();
      payloads.push_back(payload_of(peer));
    }
    std::sort(payloads.begin(), payloads.end());
    co_return fmt::format("{}", fmt::join(payloads, " "));
  }
  // ACK; the answer if it is to have one.
  Task<Command> ack(TestPeer& peer, std::uint64_t consumer, proto::MessageIdData id,
                    std::optional<TxnId> txn, bool cumulative = false) {
    Command command;
    command.set_type(Command::ACK);
    auto& ack = *command.mutable_ack();
    ack.set_consumer_id(consumer);
    ack.set_ack_type(cumulative ? proto::CommandAck::Cumulative : proto::CommandAck::Individual);
    ack.add_message_id()->set_ledgerid(id.ledgerid());
    ack.mutable_message_id(0)->set_entryid(id.entryid());
    ack.set_request_id(5);
    if (txn) {
      ack.set_txnid_least_bits(txn->least_bits);
      ack.set_txnid_most_bits(txn->most_bits);
    }
    peer.send(command);
    co_return co_await peer.next();
  }
  // All connections go, the broker is closed or killed, and a new one opens the same data.
  Task<void> restart() {
    co_await end_peers();
    const Status closed = co_await broker->close();
    EXPECT_TRUE(closed.is_ok()) << closed.to_string();
    broker = std::make_unique<Broker>(
        runtime, config, *metadata, std::vector<LedgerStore*>{ledgers.get()},
        BrokerAddresses{"pulsar://localhost:6650", "http://localhost:8080"});
    const Status opened = co_await broker->open();
    EXPECT_TRUE(opened.is_ok()) << opened.to_string();
  }
  std::int64_t backlog(const std::string& topic) {
    const auto loaded = broker->loaded_topic(*TopicName::parse(topic));
    return loaded == nullptr ? -1 : loaded->subscription("s")->cursor()->backlog_entries();
  }

  std::int64_t unacked(const std::string& topic) {
    const auto loaded = broker->loaded_topic(*TopicName::parse(topic));
    return loaded == nullptr ? -1 : loaded->stats().subscriptions.at(0).unacked_messages;
  }

  std::uint64_t sequence_ = 0;
  std::vector<std::string> came_;
  proto::MessageIdData last_id_;
};

}  // namespace geminga::testing
