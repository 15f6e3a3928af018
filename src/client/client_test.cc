#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/use_future.hpp>

#include "client/fake_broker_test_support.h"

namespace geminga::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ClientTest : public testing::Test {
 protected:
  void SetUp() override {
    ClientOptions options;
    options.service_url = broker_.url();
    options.operation_timeout = 2s;
    make_client(options);
  }
  void TearDown() override {
    client_->close();
    io_.poll();
  }
  void make_client(ClientOptions options) {
    client_ = std::make_unique<Client>(io_, std::move(options));
  }

  // Runs the loop until the task is done.
  template <typename T>
  T run(Task<T> task) {
    std::optional<T> result;
    asio::co_spawn(io_, std::move(task), [&](std::exception_ptr exception, T value) {
      if (exception) std::rethrow_exception(exception);
      result.emplace(std::move(value));
    });
    while (!result) io_.run_one();
    return std::move(*result);
  }
  // Runs the loop until `condition` holds, at most 5 s.
  template <typename F>
  bool run_until(F condition) {
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (!condition() && std::chrono::steady_clock::now() < end) io_.run_one_for(50ms);
    return condition();
  }

  std::shared_ptr<Producer> producer(ProducerOptions options) {
    if (options.topic.empty()) options.topic = "t";
    options.on_receipt = [this](const Receipt& r) {
      receipts_.push_back({r.context, r.status, r.id, r.batch_index});
    };
    options.on_closed = [this](const Status& why) { closed_.push_back(why); };
    auto opened = run(client_->create_producer(std::move(options)));
    EXPECT_TRUE(opened.is_ok()) << opened.status().to_string();
    return opened.is_ok() ? *opened : nullptr;
  }
  std::shared_ptr<Consumer> consumer(ConsumerOptions options) {
    if (options.topic.empty()) options.topic = "t";
    options.subscription = "s";
    options.on_message = [this](const ReceivedMessage& m) {
      received_.push_back({m.id, text_of(m.payload), std::string(m.key), m.sequence_id,
                           std::string(m.property("p").value_or("none"))});
      if (ack_) acking_->ack(m.id);
    };
    options.on_closed = [this](const Status& why) { closed_.push_back(why); };
    auto opened = run(client_->subscribe(std::move(options)));
    EXPECT_TRUE(opened.is_ok()) << opened.status().to_string();
    if (opened.is_ok()) acking_ = opened->get();
    return opened.is_ok() ? *opened : nullptr;
  }
  Status send(Producer& to, std::string_view payload, std::uint64_t context = 0) {
    OutgoingMessage message;
    message.payload = bytes_of(payload);
    return to.send(message, context);
  }

  struct Seen {
    MessageId id;
    std::string payload;
    std::string key;
    std::int64_t sequence_id;
    std::string property;
  };
  struct Got {
    std::uint64_t context;
    Status status;
    Position id;
    std::int32_t batch_index;
  };

  asio::io_context io_{1};
  FakeBroker broker_{io_};
  std::unique_ptr<Client> client_;
  std::vector<Got> receipts_;
  std::vector<Seen> received_;
  std::vector<Status> closed_;
  bool ack_ = false;
  Consumer* acking_ = nullptr;
};

TEST_F(ClientTest, MessagesAloneArriveInOrder) {
  const auto from = consumer({});
  ProducerOptions options;
  options.batching = false;
  const auto to = producer(std::move(options));
  EXPECT_EQ(to->name(), "fake-0-0");
  const Property properties[] = {{"p", "v"}};
  for (int i = 0; i < 3; ++i) {
    OutgoingMessage message;
    const std::string payload = "m" + std::to_string(i);
    message.payload = bytes_of(payload);
    if (i == 1) message.key = "k";
    message.properties = properties;
    ASSERT_TRUE(to->send(message, 100 + i).is_ok());
  }
  EXPECT_EQ(to->pending(), 3U);
  ASSERT_TRUE(run_until([&] { return receipts_.size() == 3 && received_.size() == 3; }));
  EXPECT_EQ(to->pending(), 0U);
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(receipts_[at].context, 100U + at);
    EXPECT_EQ(receipts_[at].id, (Position{1, i}));
    EXPECT_EQ(receipts_[at].batch_index, -1);
    EXPECT_EQ(received_[at].payload, "m" + std::to_string(i));
    EXPECT_EQ(received_[at].key, i == 1 ? "k" : "");
    EXPECT_EQ(received_[at].sequence_id, i);
    EXPECT_EQ(received_[at].property, "v");
    EXPECT_EQ(received_[at].id.batch_index, -1);
  }
}

TEST_F(ClientTest, BatchesGoByCountByBytesAndByTime) {
  const auto from = consumer({});
  ProducerOptions options;
  options.batch_messages = 3;
  options.batch_bytes = 100;
  options.batch_delay = 20ms;
  const auto to = producer(std::move(options));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send(*to, "x", i).is_ok());  // full
  ASSERT_TRUE(send(*to, "y").is_ok());
  ASSERT_TRUE(send(*to, std::string(95, 'z')).is_ok());  // does not fit to y
  ASSERT_TRUE(send(*to, "late").is_ok());
  ASSERT_TRUE(run_until([&] { return receipts_.size() == 6 && received_.size() == 6; }));
  EXPECT_EQ(broker_.sends, 4);
  EXPECT_EQ(receipts_[2].id, (Position{1, 0}));
  EXPECT_EQ(receipts_[2].batch_index, 2);
  EXPECT_EQ(receipts_[3].batch_index, 0);
  EXPECT_EQ(received_[2].id.batch_index, 2);
  EXPECT_EQ(received_[2].id.batch_size, 3);
  EXPECT_EQ(received_[5].payload, "late");
  EXPECT_EQ(received_[5].sequence_id, 5);
  const auto batch =
      parse_entry_metadata(bytes_of(broker_.entries["persistent://public/default/t"][0]));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->sequence_id, 0);
  EXPECT_EQ(batch->highest_sequence_id, 2);
  EXPECT_EQ(batch->num_messages, 3);
}

TEST_F(ClientTest, EveryCodec) {
  const auto from = consumer({});
  std::size_t expected = 0;
  for (const Codec codec : {Codec::Lz4, Codec::Zlib, Codec::Zstd, Codec::Snappy}) {
    for (const bool batching : {false, true}) {
      ProducerOptions options;
      options.compression = codec;
      options.batching = batching;
      const auto to = producer(std::move(options));
      ASSERT_TRUE(send(*to, std::string(1000, 'c')).is_ok());
      ++expected;
      ASSERT_TRUE(run_until([&] { return received_.size() == expected; }));
      EXPECT_EQ(received_.back().payload, std::string(1000, 'c'));
      EXPECT_LT(broker_.entries.begin()->second.back().size(), 300U);
    }
  }
}

TEST_F(ClientTest, AcksAreGroupedAndABatchIsAckedWhole) {
  ack_ = true;
  ConsumerOptions wanted;
  wanted.ack_group = 3;
  wanted.ack_delay = 10ms;
  const auto from = consumer(std::move(wanted));
  ProducerOptions options;
  options.batch_messages = 2;
  const auto to = producer(std::move(options));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(send(*to, "x").is_ok());
  // Three at once, the fourth when the delay is over.
  ASSERT_TRUE(run_until([&] { return broker_.acked.size() == 4; }));
  EXPECT_THAT(broker_.acked,
              ElementsAre(Position{1, 0}, Position{1, 1}, Position{1, 2}, Position{1, 3}));

  ack_ = false;
  ASSERT_TRUE(send(*to, "a").is_ok());
  ASSERT_TRUE(send(*to, "b").is_ok());
  ASSERT_TRUE(run_until([&] { return received_.size() == 10; }));
  from->ack(received_[9].id);
  from->ack(received_[9].id);
  from->flush_acks();
  EXPECT_FALSE(run_until([&, end = std::chrono::steady_clock::now() + 50ms] {
                 return broker_.acked.size() > 4 || std::chrono::steady_clock::now() > end;
               }) &&
               broker_.acked.size() > 4);
  from->ack(received_[8].id);
  ASSERT_TRUE(run_until([&] { return broker_.acked.size() == 5; }));
  EXPECT_EQ(broker_.acked.back(), (Position{1, 4}));
  from->ack_cumulative(received_[8].id);  // not the last of its batch: up to the one before
  ASSERT_TRUE(run_until([&] { return broker_.cumulative.has_value(); }));
  EXPECT_EQ(broker_.cumulative, (Position{1, 3}));
}

TEST_F(ClientTest, PermitsGoBackByHalvesAndNotWhilePaused) {
  ConsumerOptions wanted;
  wanted.receiver_queue = 10;
  const auto from = consumer(std::move(wanted));
  ProducerOptions options;
  options.batching = false;
  const auto to = producer(std::move(options));
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(send(*to, "x").is_ok());
  ASSERT_TRUE(run_until([&] { return received_.size() == 12; }));
  ASSERT_TRUE(run_until([&] { return broker_.flows.size() == 3; }));
  EXPECT_THAT(broker_.flows, ElementsAre(10, 5, 5));
  from->pause();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(send(*to, "x").is_ok());
  ASSERT_TRUE(run_until([&] { return receipts_.size() == 32 && received_.size() == 20; }));
  EXPECT_THAT(broker_.flows, SizeIs(3));
  from->resume();
  ASSERT_TRUE(run_until([&] { return received_.size() == 32; }));
}

TEST_F(ClientTest, ASendErrorFailsItsMessageOnly) {
  broker_.script.fail_sequences = {1};
  ProducerOptions options;
  options.batching = false;
  const auto to = producer(std::move(options));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send(*to, "x").is_ok());
  ASSERT_TRUE(run_until([&] { return receipts_.size() == 3; }));
  EXPECT_TRUE(receipts_[0].status.is_ok());
  EXPECT_TRUE(receipts_[1].status.is(ErrorCode::Checksum));
  EXPECT_EQ(receipts_[1].status.message(), "asked to fail");
  EXPECT_TRUE(receipts_[2].status.is_ok());
}

TEST_F(ClientTest, ABrokenConnectionFailsAllThatIsPendingOnce) {
  broker_.script.drop_after_sends = 1;
  const auto from = consumer({});
  ProducerOptions options;
  options.batching = false;
  const auto to = producer(std::move(options));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send(*to, "x", i).is_ok());
  ASSERT_TRUE(run_until([&] { return closed_.size() == 2; }));
  ASSERT_EQ(receipts_.size(), 5U);
  EXPECT_TRUE(receipts_[4].status.is(ErrorCode::Io));
  EXPECT_FALSE(to->is_open());
  EXPECT_FALSE(from->is_open());
  EXPECT_TRUE(send(*to, "x").is(ErrorCode::Closed));
  EXPECT_TRUE(run(to->close()).is(ErrorCode::Io));
  // The pool opens another connection.
  broker_.script.drop_after_sends = -1;
  const auto again = producer({});
  ASSERT_TRUE(send(*again, "x").is_ok());
  ASSERT_TRUE(run_until([&] { return receipts_.size() == 6; }));
  EXPECT_TRUE(receipts_[5].status.is_ok());
}

TEST_F(ClientTest, TheBrokerClosesAProducer) {
  const auto to = producer({});
  FakeBroker::Command command;
  command.set_type(FakeBroker::Command::CLOSE_PRODUCER);
  command.mutable_close_producer()->set_producer_id(0);
  command.mutable_close_producer()->set_request_id(~std::uint64_t{0});
  broker_.broadcast(command);
  ASSERT_TRUE(run_until([&] { return closed_.size() == 1; }));
  EXPECT_TRUE(closed_[0].is(ErrorCode::Closed));
  EXPECT_TRUE(producer({})->is_open());  // the connection lives on
  EXPECT_EQ(broker_.connections, 1);
}

TEST_F(ClientTest, LookupsFollowRedirectsAndProxies) {
  broker_.script.redirects = 3;
  EXPECT_NE(producer({}), nullptr);
  broker_.script.redirects = 100;
  ProducerOptions options;
  options.topic = "t";
  const auto lost = run(client_->create_producer(std::move(options)));
  EXPECT_THAT(lost.status().message(), HasSubstr("redirected 20 times"));
  broker_.script.redirects = 0;
  broker_.script.proxy = true;
  EXPECT_NE(producer({}), nullptr);
  EXPECT_EQ(broker_.connects.back(), broker_.url().substr(9));
}

TEST_F(ClientTest, PartitionsAndConnectionsPerBroker) {
  EXPECT_EQ(run(client_->partitions("t")).value_or(0), 3U);
  ClientOptions options;
  options.service_url = broker_.url();
  options.connections_per_broker = 3;
  Client wide(io_, options);
  for (int i = 0; i < 8; ++i) {
    ProducerOptions wanted;
    wanted.topic = "t";
    ASSERT_TRUE(run(wide.create_producer(std::move(wanted))).is_ok());
  }
  EXPECT_EQ(broker_.connections, 4);
  wide.close();
}

TEST_F(ClientTest, DamagedEntriesAreAckedWithTheReasonAndNotDelivered) {
  auto& log = broker_.entries["persistent://public/default/t"];
  ProducerOptions options;
  options.batching = false;
  const auto to = producer(std::move(options));
  ASSERT_TRUE(send(*to, "hello").is_ok());
  ASSERT_TRUE(run_until([&] { return receipts_.size() == 1; }));
  std::string damaged = log[0];
  damaged.back() ^= 1;
  log.insert(log.begin(), damaged);
  log.insert(log.begin(), "not an entry");
  const auto from = consumer({});
  ASSERT_TRUE(run_until([&] { return received_.size() == 1 && broker_.acked.size() == 2; }));
  EXPECT_EQ(received_[0].payload, "hello");
  EXPECT_EQ(from->damaged(), 2U);
  EXPECT_THAT(broker_.validation_errors,
              ElementsAre(pulsar::proto::CommandAck::BatchDeSerializeError,
                          pulsar::proto::CommandAck::ChecksumMismatch));
}

TEST_F(ClientTest, WhatCannotBeSentIsRefused) {
  ProducerOptions options;
  options.max_pending = 2;
  options.batch_delay = 10s;
  const auto to = producer(std::move(options));
  EXPECT_TRUE(send(*to, std::string((5 << 20) + 1, 'x')).is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(send(*to, "1").is_ok());
  EXPECT_TRUE(send(*to, "2").is_ok());
  EXPECT_TRUE(send(*to, "3").is(ErrorCode::TooManyRequests));
  EXPECT_TRUE(run(to->close()).is_ok());  // flushes and waits
  EXPECT_THAT(receipts_, SizeIs(2));
  EXPECT_TRUE(send(*to, "4").is(ErrorCode::Closed));
  EXPECT_TRUE(broker_.closed.contains("producer 0"));
}

TEST_F(ClientTest, SeekSubscribesAgain) {
  const auto from = consumer({});
  const auto to = producer({});
  ASSERT_TRUE(send(*to, "x").is_ok());
  ASSERT_TRUE(run_until([&] { return received_.size() == 1; }));
  ASSERT_TRUE(run(from->seek(Position::earliest())).is_ok());
  ASSERT_TRUE(run_until([&] { return received_.size() == 2; }));
  EXPECT_TRUE(from->is_open());
  EXPECT_THAT(closed_, IsEmpty());
  const auto last = run(from->last_message_id());
  ASSERT_TRUE(last.is_ok());
  EXPECT_EQ(last->position, (Position{1, 0}));
  from->redeliver_unacked();
  ASSERT_TRUE(run_until([&] { return received_.size() == 3; }));
  EXPECT_TRUE(run(from->unsubscribe()).is_ok());
  EXPECT_FALSE(from->is_open());
}

TEST_F(ClientTest, SilentBrokersTimeOut) {
  ClientOptions options;
  options.service_url = broker_.url();
  options.operation_timeout = 50ms;
  options.keep_alive = 30ms;
  make_client(options);
  const auto to = producer({});
  broker_.script.ignore_requests = true;
  const auto partitions = run(client_->partitions("t"));
  EXPECT_TRUE(partitions.is(ErrorCode::Timeout));
  EXPECT_THAT(partitions.status().message(), HasSubstr("PARTITIONED_METADATA"));
  EXPECT_THAT(closed_, IsEmpty());  // pings are answered
  broker_.script.ignore_pings = true;
  ASSERT_TRUE(run_until([&] { return closed_.size() == 1; }));
  EXPECT_TRUE(closed_[0].is(ErrorCode::Timeout));
}

TEST_F(ClientTest, RefusalsAndDeadBrokersAreTold) {
  broker_.script.refuse_connect = true;
  const auto refused = run(client_->partitions("t"));
  EXPECT_TRUE(refused.is(ErrorCode::Authentication)) << refused.status().to_string();
  ClientOptions options;
  options.service_url = "pulsar://127.0.0.1:1";
  make_client(options);
  const auto dead = run(client_->partitions("t"));
  EXPECT_TRUE(dead.is(ErrorCode::Io));
  EXPECT_THAT(dead.status().message(), HasSubstr("127.0.0.1:1"));
}

TEST_F(ClientTest, AnEndThatIsDroppedIsClosedAtTheBroker) {
  {
    const auto to = producer({});
    const auto from = consumer({});
  }
  EXPECT_TRUE(run_until([&] { return broker_.closed.size() == 2; }));
}

}  // namespace
}  // namespace geminga::client
