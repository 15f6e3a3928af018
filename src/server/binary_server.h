// Listens for the binary protocol, on one port or several, and hands each accepted socket to one of
// the port's shards, in turn; a connection stays there for life. Made and owned by main; listen()
// and stop() are awaited on shard 0.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "broker/session.h"
#include "runtime/gate.h"
#include "runtime/task.h"
#include "server/connection_shard.h"

namespace geminga {

class Broker;

class BinaryServer {
 public:
  explicit BinaryServer(Broker& broker);
  BinaryServer(Broker& broker, SessionSettings settings);
  ~BinaryServer();

  // Binds and accepts, for connections on `shards`; gives the port. Port 0 takes a free one. Io if
  // the address cannot be bound (AlreadyExists: in use).
  Task<Result<unsigned>> listen(std::string address, unsigned port, std::vector<unsigned> shards);
  // Stops accepting; connections live on.
  Task<void> stop_accepting();
  // stop_accepting(), then closes all connections and waits for their ends. Close the broker's
  // topics first, so that clients get their last receipts.
  Task<void> stop();

 private:
  struct Listener {
    asio::ip::tcp::acceptor acceptor;
    std::vector<unsigned> shards;
  };
  Task<void> accept_all(Listener& listener);
  // Empty, or why one more connection is too many.
  std::string full() const;
  static void refuse(asio::ip::tcp::socket& socket, const std::string& why);

  Broker& broker_;
  const SessionSettings settings_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Gate accepting_;
  std::vector<std::unique_ptr<ConnectionShard>> shards_;  // by number
  std::int64_t told_full_ns_ = std::numeric_limits<std::int64_t>::min() / 2;
  std::int64_t most_by_files_ = 0;  // connections that the limit of open files leaves room for
};

// What the broker's configuration says about connections.
SessionSettings session_settings(const Broker& broker);

}  // namespace geminga
