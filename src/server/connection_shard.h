// The connections of one shard: one coarse timer for the keep-alive of all of them, one for those
// that wait for memory. Made by BinaryServer, used on its shard only.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <unordered_set>
#include <vector>

#include "broker/session.h"
#include "runtime/gate.h"
#include "runtime/shard.h"
#include "runtime/task.h"

namespace geminga {

class BinaryConnection;
class Broker;

class ConnectionShard {
 public:
  ConnectionShard(Broker& broker, Shard& shard, SessionSettings settings);
  ~ConnectionShard();

  void add(asio::ip::tcp::socket socket);
  std::size_t size() const { return connections_.size(); }
  // Closes all and waits until nothing of them is left.
  Task<void> close();

  // For the connections.
  MemoryBudget& memory();
  void wait_for_memory(std::shared_ptr<BinaryConnection> connection);
  void ended(std::shared_ptr<BinaryConnection> connection);

 private:
  void start_tick();
  void tick();
  void start_memory_check();
  void check_memory();

  Broker& broker_;
  Shard& shard_;
  const SessionSettings settings_;
  Gate gate_;
  bool closing_ = false;
  std::unordered_set<std::shared_ptr<BinaryConnection>> connections_;
  std::vector<std::weak_ptr<BinaryConnection>> short_of_memory_;
  asio::steady_timer tick_timer_;
  asio::steady_timer memory_timer_;
  bool ticking_ = false;
  bool checking_memory_ = false;
};

}  // namespace geminga
