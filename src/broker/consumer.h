// One connected consumer: what it may still be sent (permits), what it holds unacknowledged, what
// it has received.
//
// Made by the subscription, owned by it and by the session that carries it, on the topic's shard.
// The dispatcher changes it. Whether it can be sent something is always computed from these
// numbers, never remembered. Once detach() was called (closed, connection gone, subscription reset)
// it belongs to nobody and every call that a session still makes with it is ignored by the
// subscription.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/outbox.h"
#include "broker/rate_meter.h"
#include "broker/subscription.h"
#include "managed_ledger/position_map.h"

namespace geminga {

// An entry that was sent to a consumer and is not wholly acknowledged: how many of its messages,
// and its Key_Shared slot.
struct PendingAck {
  std::uint32_t messages = 0;
  std::uint32_t batch_size = 0;  // with those acknowledged before it was sent
  std::uint16_t slot = 0;
};

// An entry that waits for one certain consumer.
struct ParkedEntry {
  std::uint16_t slot = 0;
  bool bound = false;  // a chunk of a message whose first chunks this consumer has
};

// The pending entries of one consumer and the sum of their messages, which nobody else changes.
class PendingAcks {
 public:
  // An entry that is there already is left as it is (sent twice by mistake of the caller).
  void add(Position position, PendingAck pending) {
    if (entries_.insert(position, pending)) messages_ += pending.messages;
  }
  std::optional<PendingAck> remove(Position position) {
    auto removed = entries_.erase(position);
    if (removed) messages_ -= removed->messages;
    return removed;
  }
  // `n` of its messages were acknowledged. How many that changed.
  std::uint32_t reduce(Position position, std::uint32_t n) {
    PendingAck* pending = entries_.find(position);
    if (pending == nullptr) return 0;
    n = std::min(n, pending->messages);
    pending->messages -= n;
    messages_ -= n;
    return n;
  }
  const PendingAck* find(Position position) const { return entries_.find(position); }
  bool empty() const { return entries_.empty(); }
  std::size_t entries() const { return entries_.size(); }
  std::int64_t messages() const { return messages_; }
  template <typename F>
  void for_each(F f) const {
    entries_.for_each(f);
  }
  PositionMap<PendingAck> take() {
    messages_ = 0;
    return std::exchange(entries_, {});
  }

 private:
  PositionMap<PendingAck> entries_;
  std::int64_t messages_ = 0;
};

class Consumer final : public Outbox::WritableListener {
 public:
  // Who shares out entries; told when the client has read on.
  class Owner {
   public:
    virtual void consumer_writable() = 0;

   protected:
    ~Owner() = default;
  };

  explicit Consumer(const SubscribeRequest& request);
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  void attach(Owner* owner);
  void detach();
  bool attached() const { return owner_ != nullptr; }

  Outbox& outbox() const { return *outbox_; }
  const std::shared_ptr<Outbox>& shared_outbox() const { return outbox_; }
  std::uint64_t id() const { return id_; }
  const std::string& name() const { return name_; }
  std::int32_t priority() const { return priority_; }
  bool read_compacted() const { return read_compacted_; }
  const std::optional<KeySharedOptions>& key_shared() const { return key_shared_; }
  std::int64_t epoch() const { return epoch_; }
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }

  void add_permits(std::uint32_t permits);
  std::int64_t permits() const { return permits_; }
  // It asked for more and its client reads what it gets.
  bool wants_more() const { return permits_ > 0 && outbox_->writable(); }
  // How many entries fill the permits, as far as one can tell from the last ones; at least one.
  std::size_t entries_wanted(std::size_t at_most) const;

  // Sends one entry of which `messages` are not yet acknowledged, and takes the permits. `now`: ms
  // since 1970.
  void send(const Delivery& delivery, const Buffer& entry, std::uint32_t messages,
            std::int64_t now);
  void acked(std::int64_t messages, std::int64_t now);

  void tick(std::int64_t now);
  ConsumerNumbers numbers() const;
  ConsumerStats stats() const;

  void outbox_writable() override;

  // Shared and Key_Shared, kept by their dispatchers.
  PendingAcks pending;
  // Entries that only this consumer may get and that wait for it or for the key to be free.
  PositionMap<ParkedEntry> parked;
  Position parked_scanned;  // those before it were found waiting for a key

  // The client has acknowledged single messages of a batch: it does so whenever it can.
  bool acks_by_index = false;

  // What the client was last told; a second time would call its listener again.
  bool told_end_of_topic = false;
  std::optional<bool> told_active;

 private:
  std::shared_ptr<Outbox> outbox_;
  Owner* owner_ = nullptr;
  std::uint64_t id_;
  std::string name_;
  std::int32_t priority_;
  bool read_compacted_;
  std::optional<KeySharedOptions> key_shared_;
  std::map<std::string, std::string> metadata_;
  std::int64_t epoch_;
  std::int64_t permits_ = 0;
  std::int64_t connected_ms_;

  RateMeter messages_out_;
  RateMeter bytes_out_;
  RateMeter redelivered_;
  RateMeter acked_;
  double messages_per_entry_ = 0;
  std::int64_t last_acked_ms_ = 0;
  std::int64_t last_consumed_ms_ = 0;
  std::int64_t last_flow_ms_ = 0;
};

}  // namespace geminga
