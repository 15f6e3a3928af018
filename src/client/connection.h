// One connection of a client to a broker: the handshake, requests and their answers, what producers
// and consumers write, what the broker sends them, keep-alive.
//
// Owned by the Client's pool and by the producers and consumers on it; belongs to one io_context
// with one thread. Writes are gathered: append() gives room behind what is already queued, and one
// write a loop turn takes all of it; while a write is in flight the next one collects. When the
// connection breaks, all requests, producers and consumers hear of it once; it is never opened
// again.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "PulsarApi.pb.h"
#include "base/clock.h"
#include "base/status.h"
#include "client/options.h"
#include "client/service_url.h"
#include "runtime/task.h"
#include "wire/client_command.h"
#include "wire/frame.h"

namespace geminga::client {

// Who lives on a connection. The connection calls; nobody may be destroyed inside a call about
// itself.
class ProducerEnd {
 public:
  virtual void on_receipt(const SendReceipt& receipt) = 0;
  virtual void on_send_error(const SendError& error) = 0;
  // The broker closed this producer, or the connection is gone.
  virtual void on_end(const Status& why) = 0;

 protected:
  ~ProducerEnd() = default;
};

class ConsumerEnd {
 public:
  virtual void on_entry(const MessageCommand& message, std::span<const std::byte> entry) = 0;
  virtual void on_active_change(bool active) = 0;
  virtual void on_end(const Status& why) = 0;

 protected:
  ~ConsumerEnd() = default;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Command = pulsar::proto::BaseCommand;

  // `proxied_broker`, if not empty, is the host:port that a proxy is to connect us with.
  static Task<Result<std::shared_ptr<Connection>>> open(asio::io_context& io, HostPort address,
                                                        std::string proxied_broker,
                                                        ClientOptions options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool is_open() const { return open_; }
  // Why it is not open any more.
  const Status& why_closed() const { return why_closed_; }
  const std::string& peer() const { return peer_; }
  std::size_t max_message_size() const { return max_message_size_; }
  asio::io_context& io() { return io_; }

  // Sends `command`, which carries `request_id`, and waits for its answer: the command that
  // answers, or the error that the broker (or this client's timeout) gave instead.
  Task<Result<Command>> request(Command command, std::uint64_t request_id);
  std::uint64_t next_request_id() { return next_request_id_++; }
  void send(const Command& command);

  // Room for `size` bytes at the end of the output; to be filled before anything else is called.
  // They leave at the end of the turn. Only while is_open().
  std::byte* append(std::size_t size);
  // Bytes that the socket has not taken yet.
  std::size_t queued() const { return collecting_.size + in_flight_.size; }

  // The ids under which they are known on this connection.
  std::uint64_t attach(ProducerEnd& producer);
  std::uint64_t attach(ConsumerEnd& consumer);
  void detach_producer(std::uint64_t id);
  void detach_consumer(std::uint64_t id);

  void close(Status why);

 private:
  struct Output {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    std::size_t capacity = 0;
    std::byte* append(std::size_t more);
  };
  struct Waiter {
    explicit Waiter(asio::io_context& io) : timer(io) {}
    asio::steady_timer timer;
    std::optional<Result<Command>> answer;
    bool extended = false;  // the broker said that the answer may take as long as it takes
  };

  Connection(asio::io_context& io, std::string peer, ClientOptions options);

  Task<Status> handshake(std::string proxied_broker);
  void start_read();
  void on_read(std::size_t size);
  Status dispatch(const Frame& frame);
  Status dispatch_command(const Command& command);
  void answer(std::uint64_t request_id, Result<Command> result);
  void authenticate_again(const Command& challenge);
  void start_write();
  void keep_alive();
  ProducerEnd* producer(std::uint64_t id) const {
    return id < producers_.size() ? producers_[id] : nullptr;
  }
  ConsumerEnd* consumer(std::uint64_t id) const {
    return id < consumers_.size() ? consumers_[id] : nullptr;
  }

  asio::io_context& io_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer keep_alive_timer_;
  const std::string peer_;
  const ClientOptions options_;
  bool open_ = false;
  bool connected_ = false;  // CONNECTED has come
  Status why_closed_;
  std::size_t max_message_size_ = kDefaultMaxMessageSize;

  std::vector<std::byte> input_;
  std::size_t input_start_ = 0;
  std::size_t input_end_ = 0;
  Output collecting_;
  Output in_flight_;
  bool writing_ = false;
  bool flush_posted_ = false;
  bool heard_ = false;  // something has come since the last keep-alive tick
  bool pinged_ = false;

  std::uint64_t next_request_id_ = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<Waiter>> waiters_;
  std::shared_ptr<Waiter> hello_;        // for CONNECTED
  std::vector<ProducerEnd*> producers_;  // by id; nullptr once detached
  std::vector<ConsumerEnd*> consumers_;
};

}  // namespace geminga::client
