// One connected producer of a topic. Made by Topic::add_producer(), kept by the topic's
// ProducerRegistry and by the session that asked for it; used on the topic's shard only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "broker/outbox.h"
#include "broker/topic.h"
#include "broker/windowed_rate.h"
#include "runtime/async.h"

namespace pulsar::proto {
class BaseCommand;
}

namespace geminga {

class Producer {
 public:
  enum class State : std::uint8_t {
    Waiting,  // WaitForExclusive, not yet its turn
    Active,
    Closed,  // left, or told by CLOSE_PRODUCER; what it still sends is dropped
    Fenced   // pushed out without a word by an exclusive producer; what it still sends ends its
             // connection
  };

  explicit Producer(ProducerRequest request);

  const std::string& name() const { return request_.name; }
  std::uint64_t id() const { return request_.producer_id; }
  std::uint64_t request_id() const { return request_.request_id; }
  std::uint64_t epoch() const { return request_.epoch; }
  ProducerAccessMode access_mode() const { return request_.access_mode; }
  std::optional<std::uint64_t> claimed_topic_epoch() const { return request_.topic_epoch; }
  bool encrypted() const { return request_.encrypted; }
  const std::string& schema_version() const { return request_.schema_version; }
  Outbox& outbox() { return *request_.outbox; }
  const std::shared_ptr<Outbox>& outbox_ptr() const { return request_.outbox; }
  // Pulsar's rule: the same producer of the same connection, on a later attempt.
  bool is_successor_of(const Producer& other) const;

  State state() const { return state_; }
  void set_state(State state) { state_ = state; }

  // Publishes that are neither answered nor dropped.
  void publish_started() { ++in_flight_; }
  void publish_done() {
    if (--in_flight_ == 0 && drained_) std::exchange(drained_, nullptr)->set();
  }
  // Completes when none is left.
  Task<void> drained();

  void count(std::uint32_t messages, std::size_t bytes, bool chunk, std::int64_t now_ns);
  ProducerNumbers numbers(std::int64_t now_ns) const;
  ProducerStats stats(std::int64_t now_ns) const;

 private:
  const ProducerRequest request_;
  const std::int64_t connected_ms_;
  State state_ = State::Active;
  std::uint32_t in_flight_ = 0;
  std::shared_ptr<Event> drained_;
  WindowedRate messages_;
  WindowedRate bytes_;
  WindowedRate chunks_;
};

// PRODUCER_SUCCESS.
pulsar::proto::BaseCommand producer_success(std::uint64_t request_id, const std::string& name,
                                            const ProducerGrant& grant,
                                            const std::string& schema_version);

}  // namespace geminga
