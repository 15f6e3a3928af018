// For tests: a broker on one shard over stores in memory, and peers that speak the protocol with a
// session without a socket. A test's body is a coroutine given to run(), on the shard.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "PulsarApi.pb.h"
#include "base/config.h"
#include "base/endian.h"
#include "broker/broker.h"
#include "broker/session.h"
#include "managed_ledger/testing/memory_ledger_store.h"
#include "managed_ledger/testing/memory_metadata_store.h"
#include "runtime/async.h"
#include "runtime/runtime.h"
#include "wire/command.h"
#include "wire/frame.h"
#include "wire/message_encoding.h"

namespace geminga::testing {

namespace proto = pulsar::proto;

// An entry as clients make it.
inline Buffer make_entry(const OutgoingMetadata& metadata, std::string_view payload) {
  const std::size_t size = encoded_size(metadata);
  Block* block = Block::allocate(kEntryHeadSize + size + payload.size());
  std::byte* end = encode(metadata, block->data() + kEntryHeadSize);
  std::memcpy(end, payload.data(), payload.size());
  seal_entry({block->data(), block->capacity()}, size);
  return Buffer::adopt(block, 0, block->capacity());
}
inline Buffer make_entry(const std::string& producer, std::int64_t sequence_id,
                         const std::string& payload, std::int32_t batch = 0) {
  OutgoingMetadata metadata;
  metadata.producer_name = producer;
  metadata.sequence_id = sequence_id;
  metadata.publish_time = 1'700'000'000'000 + sequence_id;
  metadata.num_messages_in_batch = batch;
  return make_entry(metadata, payload);
}

class TestPeer final : public SessionTransport {
 public:
  TestPeer(Broker& broker, Shard& shard, SessionSettings settings = {}) {
    session = std::make_shared<Session>(broker, shard, *this, settings, "/10.0.0.1:4000");
  }

  // --- what the session sees of the socket ---
  void write(std::vector<Buffer>& pieces) override {
    for (const Buffer& piece : pieces) {
      if (reads) session_read_ += static_cast<std::int64_t>(piece.size());
      received_ += piece.view();
    }
    pieces.clear();
    if (!reads || telling_) return;
    telling_ = true;
    // As a socket would: later.
    session->shard().post([this, alive = session] {
      telling_ = false;
      alive->written(std::exchange(session_read_, 0));
    });
  }
  void resume_reading() override { ++resumed; }
  void wait_for_memory() override { ++memory_waits; }
  void close() override { closed = true; }

  // --- what the client does ---
  void send_raw(const Buffer& bytes) { (void)session->received(bytes); }
  void send(const proto::BaseCommand& command) {
    const Buffer frame = encode_command(command);
    if (chunk_) {
      *chunk_ += frame.view();
    } else {
      send_raw(frame);
    }
  }
  // Several frames in one chunk.
  void begin_chunk() { chunk_.emplace(); }
  void end_chunk() { send_raw(Buffer::copy_of(*std::exchange(chunk_, std::nullopt))); }

  void connect(const std::string& version = "Pulsar-CPP-v4.2.0", std::int32_t protocol = 20) {
    proto::BaseCommand command;
    command.set_type(proto::BaseCommand::CONNECT);
    command.mutable_connect()->set_client_version(version);
    command.mutable_connect()->set_protocol_version(protocol);
    send(command);
  }
  void send_message(std::uint64_t producer_id, std::uint64_t sequence_id, const Buffer& entry,
                    std::optional<std::uint64_t> highest = {}, std::int32_t messages = 1,
                    std::optional<TxnId> txn = {}) {
    proto::BaseCommand command;
    command.set_type(proto::BaseCommand::SEND);
    auto& send = *command.mutable_send();
    send.set_producer_id(producer_id);
    send.set_sequence_id(sequence_id);
    send.set_num_messages(messages);
    if (highest) send.set_highest_sequence_id(*highest);
    if (txn) {
      send.set_txnid_least_bits(txn->least_bits);
      send.set_txnid_most_bits(txn->most_bits);
    }
    const Buffer head = encode_command(command);
    std::string frame(head.view());
    frame += entry.view();
    store_be32(frame.data(), static_cast<std::uint32_t>(frame.size() - 4));
    if (chunk_) {
      *chunk_ += frame;
    } else {
      send_raw(Buffer::copy_of(frame));
    }
  }

  // The next frame that the broker sent, within five seconds; type CONNECT (never sent by a broker)
  // if none came.
  Task<proto::BaseCommand> next() {
    for (int i = 0; i < 5000; ++i) {
      const NextFrame frame = next_frame(std::as_bytes(std::span(received_)), 100 << 20);
      if (frame.state == NextFrame::State::Ready) {
        auto command = parse_command(frame.frame.command);
        rest_ = std::string(reinterpret_cast<const char*>(frame.frame.rest.data()),
                            frame.frame.rest.size());
        received_.erase(0, frame.frame.size);
        if (command) co_return std::move(*command);
        ADD_FAILURE() << command.status().to_string();
      }
      co_await sleep_for(Millis(1));
    }
    proto::BaseCommand none;
    none.set_type(proto::BaseCommand::CONNECT);
    co_return none;
  }
  // The entry behind the MESSAGE that next() gave last.
  const std::string& rest() const { return rest_; }
  bool silent() const { return received_.empty(); }
  const std::string& received() const { return received_; }

  std::shared_ptr<Session> session;
  bool reads = true;  // false: a client that never reads
  bool closed = false;
  int resumed = 0;
  int memory_waits = 0;

 private:
  std::string received_;
  std::string rest_;
  std::optional<std::string> chunk_;
  std::int64_t session_read_ = 0;
  bool telling_ = false;
};

class BrokerWorld : public ::testing::Test {
 protected:
  BrokerWorld() : runtime({1, 64 << 20, false, 1}) {
    runtime.start();
    metadata = std::make_unique<MemoryMetadataStore>(shard());
    ledgers = std::make_unique<MemoryLedgerStore>(shard());
  }
  ~BrokerWorld() override {
    run([this]() -> Task<void> {
      for (auto& peer : peers_) {
        peer->session->disconnected();
        co_await peer->session->ended();
      }
      if (broker != nullptr) {
        const Status closed = co_await broker->close();
        EXPECT_TRUE(closed.is_ok()) << closed.to_string();
      }
    });
    runtime.stop();
    peers_.clear();
    gone_.clear();
    broker.reset();
  }

  // The test's body, on the shard, with the broker open.
  template <typename F>
  void run_with_broker(F body) {
    run([this, body = std::move(body)]() mutable -> Task<void> {
      broker = std::make_unique<Broker>(
          runtime, config, *metadata, std::vector<LedgerStore*>{ledgers.get()},
          BrokerAddresses{"pulsar://localhost:6650", "http://localhost:8080"});
      const Status opened = co_await broker->open();
      EXPECT_TRUE(opened.is_ok()) << opened.to_string();
      if (opened.is_ok()) co_await body();
    });
  }
  template <typename F>
  void run(F body) {
    runtime.run_and_wait(0, std::move(body));
  }

  Shard& shard() { return runtime.shard(0); }
  TestPeer& peer(SessionSettings settings = {}) {
    peers_.push_back(std::make_unique<TestPeer>(*broker, shard(), settings));
    return *peers_.back();
  }
  // A peer that is through CONNECT.
  Task<TestPeer*> connected_peer(SessionSettings settings = {}) {
    TestPeer& made = peer(settings);
    made.connect();
    const auto connected = co_await made.next();
    EXPECT_EQ(connected.type(), proto::BaseCommand::CONNECTED);
    co_return &made;
  }
  // PRODUCER; gives the broker's answer.
  Task<proto::BaseCommand> produce(TestPeer& peer, std::string topic, std::uint64_t id,
                                   std::string name = "",
                                   proto::ProducerAccessMode mode = proto::Shared) {
    proto::BaseCommand command;
    command.set_type(proto::BaseCommand::PRODUCER);
    auto& producer = *command.mutable_producer();
    producer.set_topic(topic);
    producer.set_producer_id(id);
    producer.set_request_id(1000 + id);
    if (!name.empty()) producer.set_producer_name(name);
    producer.set_producer_access_mode(mode);
    peer.send(command);
    co_return co_await peer.next();
  }
  Task<proto::BaseCommand> subscribe(
      TestPeer& peer, std::string topic, std::string subscription, std::uint64_t id,
      proto::CommandSubscribe::SubType type = proto::CommandSubscribe::Exclusive,
      bool earliest = true) {
    proto::BaseCommand command;
    command.set_type(proto::BaseCommand::SUBSCRIBE);
    auto& subscribe = *command.mutable_subscribe();
    subscribe.set_topic(topic);
    subscribe.set_subscription(subscription);
    subscribe.set_subtype(type);
    subscribe.set_consumer_id(id);
    subscribe.set_request_id(2000 + id);
    subscribe.set_consumer_name("c" + std::to_string(id));
    subscribe.set_initialposition(earliest ? proto::CommandSubscribe::Earliest
                                           : proto::CommandSubscribe::Latest);
    peer.send(command);
    co_return co_await peer.next();
  }
  // Every connection goes.
  Task<void> end_peers() {
    for (auto& peer : peers_) {
      peer->session->disconnected();
      co_await peer->session->ended();
    }
    gone_.insert(gone_.end(), std::make_move_iterator(peers_.begin()),
                 std::make_move_iterator(peers_.end()));
    peers_.clear();
  }
  void flow(TestPeer& peer, std::uint64_t consumer_id, std::uint32_t permits) {
    proto::BaseCommand command;
    command.set_type(proto::BaseCommand::FLOW);
    command.mutable_flow()->set_consumer_id(consumer_id);
    command.mutable_flow()->set_messagepermits(permits);
    peer.send(command);
  }

  BrokerConfig config;
  Runtime runtime;
  std::unique_ptr<MemoryMetadataStore> metadata;
  std::unique_ptr<MemoryLedgerStore> ledgers;
  std::unique_ptr<Broker> broker;

 private:
  std::vector<std::unique_ptr<TestPeer>> peers_;
  std::vector<std::unique_ptr<TestPeer>> gone_;  // of brokers that are closed
};

}  // namespace geminga::testing
