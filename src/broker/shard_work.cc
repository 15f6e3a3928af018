#include "broker/shard_work.h"

#include "broker/ack_reply.h"

namespace geminga {

std::size_t ShardWork::add_publish_group(const std::shared_ptr<Topic>& topic) {
  if (groups_used == publishes.size()) publishes.emplace_back();
  publishes[groups_used].topic = topic;
  return groups_used++;
}

ShardWork::ConsumerOp& ShardWork::add_consumer_op(ConsumerOp::Kind kind,
                                                  const std::shared_ptr<Subscription>& subscription,
                                                  const std::shared_ptr<Consumer>& consumer) {
  ConsumerOp& op = consumer_ops.emplace_back();
  op.kind = kind;
  op.subscription = subscription;
  op.consumer = consumer;
  return op;
}

// Consumers first: a non-persistent message that was sent after a FLOW must find its permits.
void ShardWork::run() {
  for (ConsumerOp& op : consumer_ops) {
    switch (op.kind) {
      case ConsumerOp::Kind::Flow: op.subscription->flow(*op.consumer, op.permits); break;
      case ConsumerOp::Kind::Redeliver:
        op.subscription->redeliver(*op.consumer, op.positions, op.epoch);
        break;
      case ConsumerOp::Kind::Ack:
      case ConsumerOp::Kind::CumulativeAck: {
        AckRequest request;
        request.cumulative = op.kind == ConsumerOp::Kind::CumulativeAck;
        request.messages = op.messages;
        const Status status = op.subscription->ack(*op.consumer, request);
        for (const std::uint64_t request_id : op.request_ids) {
          op.outbox->send_frame(ack_response(op.consumer_id, request_id, status));
        }
        break;
      }
    }
  }
  consumer_ops.clear();
  for (std::size_t i = 0; i < groups_used; ++i) {
    publishes[i].topic->publish(publishes[i].items);
    publishes[i].items.clear();
    publishes[i].topic.reset();
  }
  groups_used = 0;
}

}  // namespace geminga
