// A topic shard's way to one client connection.
//
// One Outbox a (connection, topic shard) pair. What topics on this shard want to tell the client
// (receipts, deliveries, broker-initiated closes) is encoded here at once, gathered during the turn
// and handed to the connection's shard as one batch at its end, where it becomes part of one
// gathered write. Order of calls = order on the wire, among what goes through the same Outbox.
//
// Used on its topic shard only, held by shared_ptr by the producers and consumers that live there.
// It outlives the connection: once that is gone, everything sent is dropped and connected() is
// false.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/position.h"
#include "base/status.h"
#include "runtime/task.h"

namespace geminga {

// What is known of the client, fixed after CONNECT.
struct PeerInfo {
  std::uint64_t connection_id = 0;  // unique in the process
  std::string address;              // "/127.0.0.1:40312" as Pulsar prints it
  std::string client_version;
  std::string role;  // authenticated role, empty without authentication
  std::int32_t protocol_version = 0;
  bool supports_broker_entry_metadata = false;
  bool supports_partial_producer = false;
  bool is_java() const { return client_version.starts_with("Pulsar-Java"); }
};

// The fields of CommandMessage, as a dispatcher knows them (wire/command.h has their encoding,
// MessageHeader).
struct Delivery {
  std::uint64_t consumer_id = 0;
  Position position;
  std::int32_t partition = -1;
  std::uint32_t redelivery_count = 0;
  std::span<const std::uint64_t> ack_set;
  std::int64_t consumer_epoch = -1;  // -1: not sent
};

class Outbox {
 public:
  virtual ~Outbox() = default;

  virtual const PeerInfo& peer() const = 0;
  virtual bool connected() const = 0;

  virtual void send_receipt(std::uint64_t producer_id, std::uint64_t sequence_id,
                            std::uint64_t highest_sequence_id, Position position) = 0;
  virtual void send_error(std::uint64_t producer_id, std::uint64_t sequence_id,
                          const Status& status) = 0;
  // A MESSAGE frame with the stored entry (as it was produced; a broker entry metadata prefix is
  // stripped for clients that did not ask for it). Small entries are copied, large ones referenced.
  virtual void send_message(const Delivery& delivery, const Buffer& entry) = 0;
  virtual void send_active_consumer_change(std::uint64_t consumer_id, bool active) = 0;
  // CLOSE_CONSUMER / CLOSE_PRODUCER by the broker (request_id -1); the session forgets the id.
  virtual void send_close_consumer(std::uint64_t consumer_id) = 0;
  virtual void send_close_producer(std::uint64_t producer_id) = 0;
  virtual void send_reached_end_of_topic(std::uint64_t consumer_id) = 0;
  // The session forgets the id and the client is not told: its next SEND finds no producer (fenced
  // out).
  virtual void forget_producer(std::uint64_t producer_id) { (void)producer_id; }
  // `count` SENDs of this connection will get neither receipt nor error (their producer is gone):
  // they leave the connection's window of publishes in flight.
  virtual void forget_publishes(std::uint32_t count) { (void)count; }
  // They wait for their topic's publish rate: they leave the window until they are resumed.
  virtual void set_publishes_aside(std::uint32_t count) { (void)count; }
  virtual void resume_publishes(std::uint32_t count) { (void)count; }
  // Any frame made with wire/command.h.
  virtual void send_frame(Buffer frame) = 0;

  // Flow control of deliveries: false while more than the high watermark of bytes (see session.h)
  // waits for the client to read. When it becomes true again every registered listener is called
  // once, at the end of a turn.
  virtual bool writable() const = 0;
  class WritableListener {
   public:
    virtual void outbox_writable() = 0;

   protected:
    ~WritableListener() = default;
  };
  virtual void add_writable_listener(WritableListener* listener) = 0;
  virtual void remove_writable_listener(WritableListener* listener) = 0;

  // PINGs the client and answers true if anything arrives from it within `timeout`; false (and the
  // connection is closed) otherwise. Pulsar's liveness probe before a newcomer may replace an
  // existing producer or consumer.
  virtual Task<bool> probe_alive(std::chrono::milliseconds timeout) = 0;
  // Closes the connection (protocol violation); logged with the reason.
  virtual void close_connection(std::string reason) = 0;
};

}  // namespace geminga
