// The Outbox of one connection on one topic shard.
//
// Frames are encoded at once into the shard's FrameArena; entries above kCopyLimit stay where they
// are and become a piece of their own. At the end of the turn everything gathered goes to the
// connection's shard as one OutBatch. Life: made by the session (on the connection's shard), used
// on the topic shard only, except for take_waiting(). While a batch is being gathered the outbox
// keeps itself alive.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "broker/connection_link.h"
#include "broker/frame_arena.h"
#include "broker/outbox.h"
#include "runtime/shard.h"

namespace geminga {

class ShardOutbox final : public Outbox,
                          public std::enable_shared_from_this<ShardOutbox>,
                          private Deferred {
 public:
  static constexpr std::size_t kCopyLimit = 2048;

  ShardOutbox(Shard& shard, std::shared_ptr<ConnectionLink> link)
      : shard_(shard), link_(std::move(link)) {}
  ~ShardOutbox() override;

  const PeerInfo& peer() const override { return link_->peer; }
  bool connected() const override { return link_->connected.load(std::memory_order_relaxed); }

  void send_receipt(std::uint64_t producer_id, std::uint64_t sequence_id,
                    std::uint64_t highest_sequence_id, Position position) override;
  void send_error(std::uint64_t producer_id, std::uint64_t sequence_id,
                  const Status& status) override;
  void send_message(const Delivery& delivery, const Buffer& entry) override;
  void send_active_consumer_change(std::uint64_t consumer_id, bool active) override;
  void send_close_consumer(std::uint64_t consumer_id) override;
  void send_close_producer(std::uint64_t producer_id) override;
  void send_reached_end_of_topic(std::uint64_t consumer_id) override;
  void forget_producer(std::uint64_t producer_id) override;
  void forget_publishes(std::uint32_t count) override;
  void set_publishes_aside(std::uint32_t count) override;
  void resume_publishes(std::uint32_t count) override;
  void send_frame(Buffer frame) override;

  bool writable() const override;
  void add_writable_listener(WritableListener* listener) override;
  void remove_writable_listener(WritableListener* listener) override;
  Task<bool> probe_alive(std::chrono::milliseconds timeout) override;
  void close_connection(std::string reason) override;

  Shard& shard() const { return shard_; }
  // Does someone wait for writable()? Asked (and cleared) by the session when its queue has
  // drained; it then calls became_writable() on the outbox's shard.
  bool take_waiting() { return waiting_.exchange(false); }
  void became_writable();

 private:
  std::byte* room(std::size_t size);
  void cut();  // the piece being written joins the batch
  void append(Buffer piece);
  void schedule();
  void run_deferred() override;

  Shard& shard_;
  const std::shared_ptr<ConnectionLink> link_;
  FrameArena::Piece piece_;
  std::unique_ptr<OutBatch> batch_;
  std::shared_ptr<ShardOutbox> alive_;  // while scheduled
  std::vector<WritableListener*> listeners_;
  bool notify_ = false;
  bool notifying_ = false;
  mutable std::atomic<bool> waiting_{false};
};

}  // namespace geminga
