// What one chunk of a connection's input holds for the topics of one shard: made by the session,
// run on that shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "broker/subscription.h"
#include "broker/topic.h"

namespace geminga {

struct ShardWork {
  struct PublishGroup {
    std::shared_ptr<Topic> topic;
    std::vector<PublishItem> items;
  };
  // One or more acknowledgements, a FLOW or a redelivery; per consumer in the order received.
  struct ConsumerOp {
    enum class Kind : std::uint8_t {
      Ack,
      CumulativeAck,
      TransactionAck,
      Flow,
      Redeliver
    } kind = Kind::Flow;
    std::shared_ptr<Subscription> subscription;
    std::shared_ptr<Consumer> consumer;
    std::uint32_t permits = 0;
    std::int64_t epoch = -1;
    std::vector<AckedMessage> messages;
    TxnId txn;                // of a TransactionAck
    bool cumulative = false;  // as well
    std::vector<Position> positions;
    // Acks whose client wants to hear of them.
    std::uint64_t consumer_id = 0;
    std::vector<std::uint64_t> request_ids;
    std::shared_ptr<Outbox> outbox;
  };

  std::vector<PublishGroup>
      publishes;  // the first `groups_used`; the rest keeps memory for the next chunk
  std::size_t groups_used = 0;
  std::vector<ConsumerOp> consumer_ops;

  bool empty() const { return groups_used == 0 && consumer_ops.empty(); }
  std::size_t add_publish_group(const std::shared_ptr<Topic>& topic);
  ConsumerOp& add_consumer_op(ConsumerOp::Kind kind,
                              const std::shared_ptr<Subscription>& subscription,
                              const std::shared_ptr<Consumer>& consumer);
  // On the shard. Empty afterwards.
  void run();
};

}  // namespace geminga
