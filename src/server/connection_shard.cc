#include "server/connection_shard.h"

#include "base/clock.h"
#include "broker/broker.h"
#include "runtime/async.h"
#include "server/binary_connection.h"

namespace geminga {

namespace {
constexpr Millis kMemoryCheck{5};
}

ConnectionShard::ConnectionShard(Broker& broker, Shard& shard, SessionSettings settings)
    : broker_(broker),
      shard_(shard),
      settings_(settings),
      tick_timer_(shard.executor()),
      memory_timer_(shard.executor()) {}

ConnectionShard::~ConnectionShard() = default;

MemoryBudget& ConnectionShard::memory() { return broker_.runtime().memory(); }

void ConnectionShard::add(asio::ip::tcp::socket socket) {
  if (closing_) return;
  auto connection =
      std::make_shared<BinaryConnection>(*this, broker_, shard_, settings_, std::move(socket));
  connections_.insert(connection);
  connection->start();
  start_tick();
}

void ConnectionShard::ended(std::shared_ptr<BinaryConnection> connection) {
  spawn(shard_, gate_, [this, connection]() -> Task<void> {
    co_await connection->session().ended();
    connections_.erase(connection);
  });
}

// The timer stands still while there are no connections: an idle broker does not wake up.
void ConnectionShard::start_tick() {
  if (ticking_ || closing_ || connections_.empty()) return;
  ticking_ = true;
  tick_timer_.expires_after(settings_.keep_alive / 6);
  tick_timer_.async_wait([this](const boost::system::error_code& error) {
    ticking_ = false;
    if (!error && !closing_) tick();
  });
}

void ConnectionShard::tick() {
  const std::int64_t now = monotonic_ns();
  const std::vector<std::shared_ptr<BinaryConnection>> all(connections_.begin(),
                                                           connections_.end());
  for (const auto& connection : all) connection->tick(now);
  start_tick();
}

void ConnectionShard::wait_for_memory(std::shared_ptr<BinaryConnection> connection) {
  short_of_memory_.push_back(connection);
  start_memory_check();
}

void ConnectionShard::start_memory_check() {
  if (checking_memory_ || closing_ || short_of_memory_.empty()) return;
  checking_memory_ = true;
  memory_timer_.expires_after(kMemoryCheck);
  memory_timer_.async_wait([this](const boost::system::error_code& error) {
    checking_memory_ = false;
    if (!error && !closing_) check_memory();
  });
}

void ConnectionShard::check_memory() {
  if (broker_.runtime().memory().pressed()) return start_memory_check();
  for (const auto& waiting : std::exchange(short_of_memory_, {})) {
    if (const auto connection = waiting.lock()) connection->session().memory_relieved();
  }
}

Task<void> ConnectionShard::close() {
  closing_ = true;
  tick_timer_.cancel();
  memory_timer_.cancel();
  const std::vector<std::shared_ptr<BinaryConnection>> all(connections_.begin(),
                                                           connections_.end());
  for (const auto& connection : all) connection->session().close("the broker is shutting down");
  co_await gate_.close();
  // Cancelled timers tell so before they may go.
  while (ticking_ || checking_memory_) co_await sleep_for(Millis(1));
}

}  // namespace geminga
