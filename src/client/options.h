// What a user of the client chooses. Values; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/position.h"
#include "base/status.h"
#include "base/unique_function.h"
#include "wire/compression.h"

namespace geminga::client {

struct ClientOptions {
  std::string service_url = "pulsar://127.0.0.1:6650";
  unsigned connections_per_broker = 1;
  Millis operation_timeout{30'000};
  Millis keep_alive{30'000};
  std::string description = "Geminga-CPP";  // CONNECT.client_version
  std::string auth_method;                  // empty: none
  std::string auth_data;
};

enum class AccessMode : std::uint8_t { Shared, Exclusive, WaitForExclusive, ExclusiveWithFencing };
enum class SubscriptionType : std::uint8_t { Exclusive, Shared, Failover, KeyShared };

// What became of one message, in the order of sending.
struct Receipt {
  std::uint64_t context = 0;  // what was given to send()
  const Status& status;
  Position id;
  std::int32_t batch_index = -1;
};

struct ProducerOptions {
  std::string topic;
  std::string name;  // empty: the broker makes one
  AccessMode access = AccessMode::Shared;
  std::string initial_subscription;
  std::vector<std::pair<std::string, std::string>> properties;
  Codec compression = Codec::None;
  bool batching = true;
  std::uint32_t batch_messages = 1000;
  std::size_t batch_bytes = 128 * 1024;
  std::chrono::microseconds batch_delay{1000};
  // Messages sent and not yet answered, after which send() refuses.
  std::size_t max_pending = 1'000'000;
  UniqueFunction<void(const Receipt&)> on_receipt;
  // The broker or the connection ended the producer; after the receipts of what was pending.
  UniqueFunction<void(const Status&)> on_closed;
};

struct MessageId {
  Position position;
  std::int32_t partition = -1;
  std::int32_t batch_index = -1;
  std::int32_t batch_size = 0;
};

struct ReceivedMessage;

struct ConsumerOptions {
  std::string topic;
  std::string subscription;
  std::string name;
  SubscriptionType type = SubscriptionType::Exclusive;
  bool durable = true;
  bool from_earliest = false;
  bool read_compacted = false;
  std::optional<Position> start;  // of a consumer that is not durable
  std::vector<std::pair<std::string, std::string>> properties;
  std::uint32_t receiver_queue = 1000;  // messages the broker may send ahead
  bool verify_checksums = true;
  std::size_t max_uncompressed = 128 * 1024 * 1024;
  std::size_t ack_group = 1000;
  Millis ack_delay{100};
  // The message and all it points to live until the call returns.
  UniqueFunction<void(const ReceivedMessage&)> on_message;
  UniqueFunction<void(const Status&)> on_closed;
  UniqueFunction<void(bool)> on_active;  // Failover: whether this consumer is the active one
};

}  // namespace geminga::client
