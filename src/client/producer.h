// A producer on one topic (one partition of a partitioned topic).
//
// Messages are pipelined: send() queues and returns, the receipts come in the same order through
// ProducerOptions::on_receipt. With batching, messages collect until the batch has batch_messages
// messages or batch_bytes bytes or its first message is batch_delay old. Belongs to its
// connection's thread. When the connection breaks or the broker closes the producer, all that is
// pending fails and on_closed is called; the producer is then done: its user makes another one.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/connection.h"
#include "client/options.h"
#include "wire/message_encoding.h"

namespace geminga::client {

// What to send; copied by send(). Keys that are null views are absent.
struct OutgoingMessage {
  std::span<const std::byte> payload;
  std::string_view key;
  std::string_view ordering_key;
  std::span<const Property> properties;
  std::int64_t event_time = 0;
  std::int64_t deliver_at = 0;              // such messages are never batched
  std::optional<std::int64_t> sequence_id;  // must rise; not given: one more than the last
};

class Producer final : public ProducerEnd, public std::enable_shared_from_this<Producer> {
 public:
  static Task<Result<std::shared_ptr<Producer>>> open(std::shared_ptr<Connection> connection,
                                                      ProducerOptions options);
  ~Producer();

  const std::string& name() const { return name_; }
  const std::string& topic() const { return options_.topic; }
  std::int64_t last_sequence_id() const { return next_sequence_id_ - 1; }

  // `context` comes back with the receipt. Refused at once, without a receipt: Closed;
  // TooManyRequests when max_pending messages wait; InvalidArgument when the message is larger than
  // the broker takes.
  Status send(const OutgoingMessage& message, std::uint64_t context);
  // Sends the batch that is being collected.
  void flush();
  // Messages sent without a receipt yet, those being collected included.
  std::size_t pending() const { return contexts_.size(); }
  bool is_open() const { return open_; }

  // Flushes, waits for the receipts, says goodbye to the broker.
  Task<Status> close();

 private:
  struct Pending {
    std::int64_t sequence_id;  // of the SEND
    std::uint32_t messages;
    bool batch;
  };

  Producer(std::shared_ptr<Connection> connection, ProducerOptions options);

  void on_receipt(const SendReceipt& receipt) override;
  void on_send_error(const SendError& error) override;
  void on_end(const Status& why) override;

  void add_to_batch(const OutgoingMessage& message, std::int64_t sequence_id);
  Status send_alone(const OutgoingMessage& message, std::int64_t sequence_id);
  void write_entry(const OutgoingMetadata& metadata, std::span<const std::byte> payload,
                   std::uint32_t messages);
  void arm_batch_timer();
  void complete_head(const Status& status, Position id);
  void fail_all(const Status& why);
  std::size_t size_limit() const;

  std::shared_ptr<Connection> connection_;
  ProducerOptions options_;
  std::uint64_t id_ = 0;
  bool open_ = false;
  Status ended_;
  std::string name_;
  std::int64_t next_sequence_id_ = 0;

  std::deque<Pending> pending_;         // sent, by SEND
  std::deque<std::uint64_t> contexts_;  // by message, those in the batch at the end

  // The batch being collected.
  std::vector<std::byte> batch_;
  std::size_t batch_size_ = 0;
  std::uint32_t batch_messages_ = 0;
  std::int64_t batch_first_sequence_ = 0;
  std::int64_t batch_last_sequence_ = 0;
  std::int64_t batch_since_ns_ = 0;
  std::string batch_key_;  // of its first message
  bool batch_has_key_ = false;
  asio::steady_timer batch_timer_;
  bool batch_timer_armed_ = false;
  asio::steady_timer drained_;  // close() waits on it
};

}  // namespace geminga::client
