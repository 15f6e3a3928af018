// The binary protocol over real sockets: framing at any cut, large messages, clients that do not
// read, limits.
#include "server/binary_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/broker_test_support.h"

namespace geminga {
namespace {

using testing::BrokerWorld;
using testing::make_entry;
using Command = pulsar::proto::BaseCommand;
namespace proto = pulsar::proto;

// A client's socket, used by the test's own thread.
class Client {
 public:
  explicit Client(unsigned port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // How much the kernel took within `wait_ms` without progress.
  std::size_t send(std::string_view bytes, int wait_ms = 5000) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      pollfd ready{fd_, POLLOUT, 0};
      if (::poll(&ready, 1, wait_ms) <= 0) break;
      const ssize_t n =
          ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    return sent;
  }
  void send(const Command& command) { send(encode_command(command).view()); }

  // The next frame; nothing at the end of the connection or after ten seconds.
  std::optional<Command> next() {
    for (;;) {
      const NextFrame frame = next_frame(std::as_bytes(std::span(input_)).subspan(at_), 100 << 20);
      if (frame.state == NextFrame::State::Ready) {
        rest_ = std::string(reinterpret_cast<const char*>(frame.frame.rest.data()),
                            frame.frame.rest.size());
        auto command = parse_command(frame.frame.command);
        at_ += frame.frame.size;
        if (!command) return std::nullopt;
        return std::move(*command);
      }
      input_.erase(0, std::exchange(at_, 0));
      pollfd ready{fd_, POLLIN, 0};
      if (::poll(&ready, 1, 10'000) <= 0) return std::nullopt;
      char some[65536];
      const ssize_t n = ::recv(fd_, some, sizeof some, 0);
      if (n <= 0) return std::nullopt;
      input_.append(some, static_cast<std::size_t>(n));
    }
  }
  const std::string& rest() const { return rest_; }

  void connect() {
    Command command;
    command.set_type(Command::CONNECT);
    command.mutable_connect()->set_client_version("test");
    command.mutable_connect()->set_protocol_version(20);
    send(command);
    const auto answer = next();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->type(), Command::CONNECTED);
  }
  void produce(const std::string& topic) {
    Command command;
    command.set_type(Command::PRODUCER);
    command.mutable_producer()->set_topic(topic);
    command.mutable_producer()->set_producer_id(1);
    command.mutable_producer()->set_request_id(1);
    command.mutable_producer()->set_producer_name("p");
    send(command);
    EXPECT_EQ(next()->type(), Command::PRODUCER_SUCCESS);
  }
  static std::string message(std::uint64_t sequence_id, const std::string& payload) {
    Command command;
    command.set_type(Command::SEND);
    command.mutable_send()->set_producer_id(1);
    command.mutable_send()->set_sequence_id(sequence_id);
    std::string frame(encode_command(command).view());
    frame += make_entry("p", static_cast<std::int64_t>(sequence_id), payload).view();
    store_be32(frame.data(), static_cast<std::uint32_t>(frame.size() - 4));
    return frame;
  }

 private:
  const int fd_;
  std::string input_;
  std::size_t at_ = 0;
  std::string rest_;
};

class BinaryServerTest : public BrokerWorld {
 protected:
  ~BinaryServerTest() override {
    run([this]() -> Task<void> { co_await server->stop(); });
  }
  void start(SessionSettings settings = {}) {
    run_with_broker([this, settings]() -> Task<void> {
      server = std::make_unique<BinaryServer>(*broker, settings);
      const auto bound = co_await server->listen("127.0.0.1", 0, std::vector<unsigned>(1, 0));
      EXPECT_TRUE(bound.is_ok()) << bound.status().to_string();
      if (bound.is_ok()) port = *bound;
    });
  }
  std::unique_ptr<BinaryServer> server;
  unsigned port = 0;
};

constexpr char kTopic[] = "persistent://public/default/t";

TEST_F(BinaryServerTest, TakesAFrameAByteAtATimeAndHoldsNoBufferWhileIdle) {
  start();
  Client client(port);
  Command command;
  command.set_type(Command::CONNECT);
  command.mutable_connect()->set_client_version("test");
  const Buffer frame = encode_command(command);
  for (std::size_t i = 0; i < frame.size(); ++i) client.send(frame.view().substr(i, 1));
  EXPECT_EQ(client.next()->type(), Command::CONNECTED);
  for (int i = 0; i < 500 && runtime.memory().used(MemoryUse::Connection) > 0; ++i) ::usleep(1000);
  EXPECT_EQ(runtime.memory().used(MemoryUse::Connection), 0U);
}

TEST_F(BinaryServerTest, ClosesAConnectionWithAnOversizeFrame) {
  start();
  Client client(port);
  client.connect();
  std::string head(8, '\0');
  store_be32(head.data(), 0x7fffffff);
  client.send(head);
  EXPECT_FALSE(client.next().has_value());
  Client other(port);
  other.connect();
}

TEST_F(BinaryServerTest, CarriesTheLargestMessage) {
  start();
  Client client(port);
  client.connect();
  client.produce(kTopic);
  const std::string payload(5 * 1024 * 1024 - 200, 'x');
  const std::string frame = Client::message(0, payload);
  EXPECT_EQ(client.send(frame), frame.size());
  EXPECT_EQ(client.next()->type(), Command::SEND_RECEIPT);
  Command subscribe;
  subscribe.set_type(Command::SUBSCRIBE);
  auto& request = *subscribe.mutable_subscribe();
  request.set_topic(kTopic);
  request.set_subscription("s");
  request.set_subtype(proto::CommandSubscribe::Exclusive);
  request.set_consumer_id(1);
  request.set_request_id(2);
  request.set_initialposition(proto::CommandSubscribe::Earliest);
  client.send(subscribe);
  EXPECT_EQ(client.next()->type(), Command::SUCCESS);
  Command flow;
  flow.set_type(Command::FLOW);
  flow.mutable_flow()->set_consumer_id(1);
  flow.mutable_flow()->set_messagepermits(1);
  client.send(flow);
  EXPECT_EQ(client.next()->type(), Command::MESSAGE);
  EXPECT_TRUE(client.rest().ends_with(payload));
}

TEST_F(BinaryServerTest, StaysBoundedWithAClientThatNeverReads) {
  SessionSettings settings;
  settings.max_unread_replies = 64 * 1024;
  start(settings);
  Client silent(port);
  silent.connect();
  silent.produce(kTopic);
  std::string many;
  for (std::uint64_t i = 0; i < 1000; ++i) many += Client::message(i, "x");
  std::uint64_t sent = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    std::string frames;
    for (std::uint64_t i = 0; i < 1000; ++i) frames += Client::message(round * 1000 + i, "x");
    if (silent.send(frames, 300) < frames.size()) break;
    sent += 1000;
  }
  EXPECT_LT(sent, 400'000U) << "it was never held back";
  EXPECT_LT(runtime.memory().used(MemoryUse::Delivery), 4U << 20);
  // The others are served.
  Client other(port);
  other.connect();
  other.produce("persistent://public/default/other");
  other.send(Client::message(0, "y"));
  EXPECT_EQ(other.next()->type(), Command::SEND_RECEIPT);
  // It reads at last, and nothing is missing.
  for (std::uint64_t i = 0; i < sent; ++i) {
    const auto receipt = silent.next();
    ASSERT_TRUE(receipt.has_value());
    ASSERT_EQ(receipt->send_receipt().sequence_id(), i);
  }
}

TEST_F(BinaryServerTest, RefusesConnectionsOverTheLimit) {
  config.broker_max_connections = 1;
  start();
  Client first(port);
  first.connect();
  Client second(port);
  const auto refused = second.next();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->error().error(), proto::NotAllowedError);
  EXPECT_FALSE(second.next().has_value());
}

TEST_F(BinaryServerTest, SaysWhenThePortIsTaken) {
  start();
  run([this]() -> Task<void> {
    BinaryServer second(*broker, SessionSettings());
    const auto bound = co_await second.listen("127.0.0.1", port, std::vector<unsigned>(1, 0));
    EXPECT_TRUE(bound.is(ErrorCode::AlreadyExists)) << bound.status().to_string();
  });
}

TEST_F(BinaryServerTest, EndsConnectionsThatNeverSendConnect) {
  SessionSettings settings;
  settings.keep_alive = Millis(60);
  start(settings);
  Client client(port);
  EXPECT_FALSE(client.next().has_value());
}

}  // namespace
}  // namespace geminga
