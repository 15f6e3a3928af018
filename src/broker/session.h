// One client connection, from CONNECT to its end: the protocol's state machine without the socket.
//
// Lives on the shard that accepted the connection; every member is called there. The transport
// (server/ binary_connection.h, or a test) feeds it what was read and writes what it hands over.
// What a chunk of input holds for topics (SEND, ACK, FLOW, redelivery) is grouped and handed to
// each topic's shard once at the chunk's end; every other command runs as a coroutine of its own
// (handlers/), owned by the session's gate.
//
// States: Start -> Connected -> Closed. A protocol violation closes the connection, with its reason
// in the log. Back-pressure: may_read() tells the transport whether to read on (publishes in
// flight, memory budget, replies the client does not read, control commands in flight).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "broker/connection_link.h"
#include "broker/shard_outbox.h"
#include "broker/subscription.h"
#include "broker/topic.h"
#include "runtime/async.h"
#include "runtime/gate.h"
#include "wire/command.h"
#include "wire/frame.h"

namespace geminga {

class Broker;
class TopicListWatch;

// The connection's socket, seen from its session.
class SessionTransport {
 public:
  // Queues `pieces` (emptied) behind what is queued and writes it, at the latest at the end of the
  // turn. Tells Session::written() how far it got.
  virtual void write(std::vector<Buffer>& pieces) = 0;
  // Session::may_read() has become true.
  virtual void resume_reading() = 0;
  // Memory is short: call Session::memory_relieved() when it is no longer (looked at every few
  // milliseconds).
  virtual void wait_for_memory() = 0;
  // Writes what can be written at once, then closes; Session::disconnected() has been called
  // already.
  virtual void close() = 0;

 protected:
  ~SessionTransport() = default;
};

struct SessionSettings {
  std::size_t max_message_size = kDefaultMaxMessageSize;
  Millis keep_alive{30'000};
  std::uint32_t max_pending_publishes = 1000;
  std::uint32_t max_control_commands = 4096;  // in flight; reading stops above
  std::int64_t max_unread_replies = 8 << 20;  // bytes the client has not read; reading stops above
  Watermarks watermarks;
};

struct ShardMetrics;
struct ShardWork;

class Session final : public std::enable_shared_from_this<Session> {
 public:
  enum class State : std::uint8_t { Start, Connected, Closed };

  Session(Broker& broker, Shard& shard, SessionTransport& transport, SessionSettings settings,
          std::string address);
  ~Session();

  // --- for the transport ---
  struct Consumed {
    std::size_t bytes = 0;  // of the input; the rest starts an incomplete frame
    std::size_t needed =
        0;  // how long that frame is, if known (else 0): room to make before reading on
  };
  // Handles every complete frame in `input`. The Buffers made of it share its block.
  Consumed received(const Buffer& input);
  bool may_read() const;
  void written(std::int64_t bytes);
  // Once in a while (a few times per keep-alive interval).
  void tick(std::int64_t now_ns);
  void memory_relieved();
  // The transport is gone (or is about to be closed by close()). Idempotent.
  void disconnected();
  // Completes when nothing of this connection is left on any shard. After disconnected().
  Task<void> ended();

  // --- for outboxes ---
  static void deliver(ConnectionLink& link, std::unique_ptr<OutBatch> batch);
  Task<bool> probe_alive(Millis timeout);

  // --- for the handlers ---
  struct ProducerSlot {
    bool ready = false;             // false: being created
    bool closed_by_broker = false;  // while it was being created
    std::uint64_t generation = 0;   // tells a slot from a later one of the same id
    std::string name;
    std::string schema_version;
    std::shared_ptr<Topic> topic;
    std::shared_ptr<Producer> producer;
    std::shared_ptr<ShardOutbox> outbox;
    Shard* shard = nullptr;
    std::uint64_t chunk = 0;  // the chunk that `group` belongs to
    std::size_t group = 0;
  };
  struct ConsumerSlot {
    bool ready = false;
    bool closed_by_broker = false;
    std::uint64_t generation = 0;
    std::shared_ptr<Topic> topic;
    std::shared_ptr<Subscription> subscription;
    std::shared_ptr<Consumer> consumer;
    std::shared_ptr<ShardOutbox> outbox;
    Shard* shard = nullptr;
  };
  // Where a consumer stood that a seek has closed. Its client may ask for it once more (SEEK,
  // GET_LAST_MESSAGE_ID) before it subscribes again. Locked on the topic's shard only.
  struct SoughtConsumer {
    std::weak_ptr<Topic> topic;
    std::weak_ptr<Subscription> subscription;
    std::shared_ptr<ShardOutbox> outbox;
    Shard* shard = nullptr;
  };

  Broker& broker() { return broker_; }
  Shard& shard() { return shard_; }
  const SessionSettings& settings() const { return settings_; }
  State state() const { return state_; }
  bool closed() const { return state_ == State::Closed; }
  const PeerInfo& peer() const { return link_->peer; }
  // After CONNECT: what is known of the client, from now on fixed.
  void connected(PeerInfo peer);

  void reply(const pulsar::proto::BaseCommand& command);
  void reply_success(std::uint64_t request_id);
  void reply_error(std::uint64_t request_id, const Status& status);
  void close(std::string_view reason);

  std::shared_ptr<ShardOutbox> outbox_on(Shard& shard);
  std::unordered_map<std::uint64_t, ProducerSlot>& producers() { return producers_; }
  std::unordered_map<std::uint64_t, ConsumerSlot>& consumers() { return consumers_; }
  std::unordered_map<std::uint64_t, std::shared_ptr<TopicListWatch>>& watches() { return watches_; }
  std::uint64_t next_generation() { return ++generation_; }
  // The slot, if it is the one of that generation still.
  ProducerSlot* producer(std::uint64_t id, std::uint64_t generation);
  ConsumerSlot* consumer(std::uint64_t id, std::uint64_t generation);
  // The live consumer, nullptr if there is none of that id.
  ConsumerSlot* consumer(std::uint64_t id);
  // The live consumer of that id, or where it stood before a seek.
  std::optional<SoughtConsumer> consumer_or_sought(std::uint64_t id) const;
  // At most so many are remembered; forgotten when the id subscribes again or closes.
  static constexpr std::size_t kMaxSought = 1024;
  void remember_sought(std::uint64_t id, SoughtConsumer consumer);
  void forget_sought(std::uint64_t id) { sought_.erase(id); }

 private:
  void handle(const Frame& frame, const Buffer& input);
  void handle_send(const Frame& frame, const Buffer& input);
  void handle_ack(const Frame& frame);
  void handle_flow(const Frame& frame);
  void handle_redeliver(const pulsar::proto::BaseCommand& command);
  void start_control(const Frame& frame);
  // Hands what the chunk held so far to the topic shards.
  void flush_work();

  void accept(OutBatch& batch);
  void forget(const OutBatch::Forgotten& forgotten, std::int64_t now_ns);
  void publishes_done(std::int32_t count);
  void ping();
  void pong();
  void write_frame(Buffer frame);
  // Sets the holds that are due after a chunk; clears those that are over, and reads on if none is
  // left.
  void hold_if_due();
  void release_holds();
  void resume_if_free();
  ShardMetrics& metrics();
  void control_done();
  void release_slots();

  Broker& broker_;
  Shard& shard_;
  SessionTransport& transport_;
  const SessionSettings settings_;
  std::shared_ptr<ConnectionLink> link_;
  State state_ = State::Start;
  Gate gate_;

  std::unordered_map<std::uint64_t, ProducerSlot> producers_;
  std::unordered_map<std::uint64_t, ConsumerSlot> consumers_;
  std::unordered_map<std::uint64_t, SoughtConsumer> sought_;
  std::unordered_map<std::uint64_t, std::shared_ptr<TopicListWatch>> watches_;
  // Producers that the broker closed: SENDs that were under way are ignored until the time given.
  std::unordered_map<std::uint64_t, std::int64_t> closed_producers_;
  std::vector<std::shared_ptr<ShardOutbox>> outboxes_;  // by shard, made when first needed
  std::uint64_t generation_ = 0;

  // Of the chunk being parsed.
  std::uint64_t chunk_ = 0;
  bool chunk_has_sends_ = false;

  std::uint32_t publishes_in_flight_ = 0;
  std::int64_t accepted_ = 0;         // bytes that the transport has and has not written
  bool publish_window_full_ = false;  // reached the limit; reading goes on at half
  bool held_by_memory_ = false;
  bool held_by_replies_ = false;
  bool held_by_control_ = false;

  std::int64_t keep_alive_due_ns_;
  bool ping_unanswered_ = false;
  std::uint64_t frames_received_ = 0;
  std::shared_ptr<asio::steady_timer> probe_;
};

}  // namespace geminga
