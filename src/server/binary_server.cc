#include "server/binary_server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "PulsarApi.pb.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/broker_metrics.h"
#include "runtime/async.h"
#include "wire/command.h"

namespace geminga {

using asio::ip::tcp;

namespace {

// Kept for what is no client of the binary protocol: segments, the metadata store, HTTP. The log
// must never find that it cannot open a file.
constexpr std::int64_t kFilesKept = 1024;

constexpr Millis kTellFullEvery{10'000};

std::int64_t connections_by_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1 << 30) return 1 << 30;
  const auto files = static_cast<std::int64_t>(limit.rlim_cur);
  return std::max(files - kFilesKept, files / 2);
}

}  // namespace

SessionSettings session_settings(const Broker& broker) {
  const BrokerConfig& config = broker.config();
  SessionSettings settings;
  settings.max_message_size = static_cast<std::size_t>(config.max_message_size);
  settings.keep_alive = std::chrono::seconds(config.keep_alive_interval_seconds);
  settings.max_pending_publishes =
      static_cast<std::uint32_t>(config.max_pending_publish_requests_per_connection);
  settings.max_control_commands = static_cast<std::uint32_t>(
      std::min<std::int64_t>(config.max_concurrent_lookup_request, 4096));
  return settings;
}

BinaryServer::BinaryServer(Broker& broker) : BinaryServer(broker, session_settings(broker)) {}

BinaryServer::BinaryServer(Broker& broker, SessionSettings settings)
    : broker_(broker), settings_(settings) {}

BinaryServer::~BinaryServer() = default;

Task<Result<unsigned>> BinaryServer::listen(std::string address, unsigned port,
                                            std::vector<unsigned> shards) {
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) {
    co_return Status::InvalidArgument(
        fmt::format("bindAddress '{}' is no IP address: {}", address, error.message()));
  }
  const tcp::endpoint endpoint(ip, static_cast<asio::ip::port_type>(port));
  tcp::acceptor acceptor(broker_.runtime().shard(0).executor());
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(4096, error);
  if (error == asio::error::address_in_use) {
    co_return Status::AlreadyExists(fmt::format(
        "port {} on {} is in use; choose another with --broker-port or in isolationGroups", port,
        address));
  }
  if (error) {
    co_return Status::Io(fmt::format("cannot listen on {}:{}: {}", address, port, error.message()));
  }
  const unsigned bound = acceptor.local_endpoint(error).port();
  most_by_files_ = connections_by_files();
  while (shards_.size() < broker_.runtime().shard_count()) {
    Shard& shard = broker_.runtime().shard(static_cast<unsigned>(shards_.size()));
    shards_.push_back(std::make_unique<ConnectionShard>(broker_, shard, settings_));
  }
  listeners_.push_back(
      std::make_unique<Listener>(Listener{std::move(acceptor), std::move(shards)}));
  Listener& listener = *listeners_.back();
  spawn(broker_.runtime().shard(0), accepting_,
        [this, &listener]() -> Task<void> { co_await accept_all(listener); });
  co_return bound;
}

std::string BinaryServer::full() const {
  const std::int64_t open = broker_.metrics().open_connections();
  const std::int64_t most = broker_.config().broker_max_connections;
  if (most > 0 && open >= most) {
    return "Reached the maximum number of connections (brokerMaxConnections)";
  }
  if (open < most_by_files_) return "";
  return fmt::format(
      "Reached the {} connections that the broker's limit of open files (ulimit -n) has room for",
      most_by_files_);
}

// Best effort: a client that has not sent CONNECT yet may or may not read it.
void BinaryServer::refuse(asio::ip::tcp::socket& socket, const std::string& why) {
  pulsar::proto::BaseCommand command;
  command.set_type(pulsar::proto::BaseCommand::ERROR);
  command.mutable_error()->set_request_id(~std::uint64_t{0});
  command.mutable_error()->set_error(pulsar::proto::NotAllowedError);
  command.mutable_error()->set_message(why);
  const Buffer frame = encode_command(command);
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  (void)socket.send(asio::buffer(frame.data(), frame.size()), 0, ignored);
}

Task<void> BinaryServer::accept_all(Listener& listener) {
  std::size_t turn = 0;
  for (;;) {
    const unsigned next = listener.shards[turn % listener.shards.size()];
    Shard& shard = broker_.runtime().shard(next);
    boost::system::error_code error;
    tcp::socket socket = co_await listener.acceptor.async_accept(
        shard.io(), asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted || !listener.acceptor.is_open()) co_return;
    if (error) {
      // Out of file descriptors, most likely: those that close give room.
      GM_LOG_WARN("accepting a connection failed: {}; trying again in 100 ms", error.message());
      co_await sleep_for(Millis(100));
      continue;
    }
    if (const std::string why = full(); !why.empty()) {
      broker_.metrics().of(0).connections_refused.add();
      const std::int64_t now = monotonic_ns();
      if (now - told_full_ns_ > std::chrono::nanoseconds(kTellFullEvery).count()) {
        told_full_ns_ = now;
        GM_LOG_WARN("refusing connections: {}", why);
      }
      refuse(socket, why);
      continue;
    }
    ConnectionShard* home = shards_[next].get();
    shard.post([home, socket = std::move(socket)]() mutable { home->add(std::move(socket)); });
    ++turn;
  }
}

Task<void> BinaryServer::stop_accepting() {
  boost::system::error_code ignored;
  for (const auto& listener : listeners_) listener->acceptor.close(ignored);
  co_await accepting_.close();
}

Task<void> BinaryServer::stop() {
  co_await stop_accepting();
  for (unsigned i = 0; i < shards_.size(); ++i) {
    ConnectionShard* shard = shards_[i].get();
    auto work = [shard]() -> Task<void> { co_await shard->close(); };
    co_await on_shard(broker_.runtime().shard(i), std::move(work));
  }
}

}  // namespace geminga
