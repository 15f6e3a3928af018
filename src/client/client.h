// A lean Pulsar client: plain protocol, asynchronous, one thread. It finds the broker of a topic,
// keeps a pool of connections, opens producers and consumers. It does not reconnect by itself: a
// producer or consumer that was closed says so, and its user opens another one.
//
// Belongs to one io_context that one thread runs (a shard's, or one of the user's own). Close it
// before it is destroyed, and keep it alive while a call is under way.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/consumer.h"
#include "client/options.h"
#include "client/producer.h"
#include "runtime/async.h"

namespace geminga::client {

class Client {
 public:
  Client(asio::io_context& io, ClientOptions options);

  // Partitions of `topic`; 0: it is not partitioned (or does not exist and may be created).
  Task<Result<std::uint32_t>> partitions(std::string topic);
  Task<Result<std::vector<std::string>>> topics_of_namespace(std::string name_space);
  // The topic name is completed to its full form.
  Task<Result<std::shared_ptr<Producer>>> create_producer(ProducerOptions options);
  Task<Result<std::shared_ptr<Consumer>>> subscribe(ConsumerOptions options);

  // Ends all connections; producers and consumers that were not closed hear of it.
  void close();

 private:
  Task<Result<std::shared_ptr<Connection>>> service_connection();
  Task<Result<std::shared_ptr<Connection>>> connection_for(std::string topic);
  Task<Result<std::shared_ptr<Connection>>> connect(HostPort address, std::string proxied_broker);

  asio::io_context& io_;
  const ClientOptions options_;
  AsyncMutex connecting_;
  // By address and proxied broker; each list grows up to connections_per_broker.
  std::map<std::pair<std::string, std::string>, std::vector<std::shared_ptr<Connection>>> pool_;
  std::size_t next_connection_ = 0;
  std::size_t next_host_ = 0;
};

}  // namespace geminga::client
