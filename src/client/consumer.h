// A consumer (or reader) on one topic (one partition of a partitioned topic).
//
// Messages come through ConsumerOptions::on_message, batches unpacked and decompressed; a call that
// returns has consumed its message, and the permit goes back to the broker by halves of the
// receiver queue. Acks are grouped; a batch is acked when all its messages are. Chunks of a large
// message are handed over one by one (see EntryMetadata::is_chunk). Belongs to its connection's
// thread. When the connection breaks or the broker closes the consumer, on_closed is called and the
// consumer is done: its user makes another one.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/connection.h"
#include "client/options.h"
#include "wire/message_metadata.h"

namespace geminga::client {

struct ReceivedMessage {
  MessageId id;
  const EntryMetadata& metadata;  // of the entry: of the whole batch
  std::span<const std::byte> payload;
  std::string_view key;  // null view: none
  std::string_view ordering_key;
  std::int64_t sequence_id = 0;
  std::int64_t event_time = 0;
  std::uint32_t redelivery_count = 0;
  std::span<const std::byte> encoded_metadata;  // Single- or MessageMetadata
  bool in_batch = false;

  std::optional<std::string_view> property(std::string_view name) const;
};

class Consumer final : public ConsumerEnd, public std::enable_shared_from_this<Consumer> {
 public:
  static Task<Result<std::shared_ptr<Consumer>>> open(std::shared_ptr<Connection> connection,
                                                      ConsumerOptions options);
  ~Consumer();

  const std::string& topic() const { return options_.topic; }
  bool is_open() const { return open_; }
  // Entries that were dropped because they did not decode (bad checksum, codec or batch); they were
  // acked with the reason, as the official clients do.
  std::uint64_t damaged() const { return damaged_; }

  void ack(const MessageId& id);
  // Everything up to and including the entry of `id`.
  void ack_cumulative(const MessageId& id);
  void flush_acks();
  // While paused no permits go back, so that the broker sends at most the receiver queue more.
  void pause() { paused_ = true; }
  void resume();

  // All that was delivered and not acked is to be delivered again.
  void redeliver_unacked();
  // The next message is the one at `position` (Position::earliest(), latest()).
  Task<Status> seek(Position position);
  Task<Result<MessageId>> last_message_id();
  // Deletes the subscription.
  Task<Status> unsubscribe();
  Task<Status> close();

 private:
  struct BatchAcks {
    std::vector<std::uint64_t> left;  // bit i: message i is to be acked
    std::uint32_t count = 0;
  };

  Consumer(std::shared_ptr<Connection> connection, ConsumerOptions options);

  void on_entry(const MessageCommand& message, std::span<const std::byte> entry) override;
  void on_active_change(bool active) override;
  void on_end(const Status& why) override;

  Task<Status> subscribe();
  Task<Status> finish(pulsar::proto::BaseCommand command, std::uint64_t request_id);
  void deliver_batch(const MessageCommand& message, const EntryMetadata& metadata,
                     std::span<const std::byte> payload);
  void drop_damaged(const MessageCommand& message, std::uint32_t messages, int validation_error);
  void give_permits(std::uint32_t count);
  void send_flow(std::uint32_t permits);
  void add_ack(Position position);
  bool batch_complete(BatchAcks& acks, std::int32_t index);

  std::shared_ptr<Connection> connection_;
  ConsumerOptions options_;
  std::uint64_t id_ = 0;
  bool open_ = false;
  bool seeking_ = false;
  bool paused_ = false;
  std::uint32_t permits_owed_ = 0;
  std::uint64_t damaged_ = 0;

  std::vector<Position> acks_;
  std::optional<Position> cumulative_ack_;
  asio::steady_timer ack_timer_;
  bool ack_timer_armed_ = false;
  // The batch being delivered, and those that were left partly acked.
  Position current_batch_;
  BatchAcks current_acks_;
  std::unordered_map<Position, BatchAcks> partial_;
};

}  // namespace geminga::client
