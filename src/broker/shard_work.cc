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

// Its answer comes when it is durable; what follows does not wait for that.
static void run_transaction_ack(ShardWork::ConsumerOp& op) {
  auto answer = [outbox = op.outbox, consumer_id = op.consumer_id,
                 request_ids = std::move(op.request_ids)](const Status& status) {
    for (const std::uint64_t request_id : request_ids) {
      outbox->send_frame(ack_response(consumer_id, request_id, status));
    }
  };
  op.subscription->ack_in_transaction(op.consumer, {op.txn, op.cumulative, std::move(op.messages)},
                                      std::move(answer));
}

// Consumers first: a non-persistent message that was sent after a FLOW must find its permits.
void ShardWork::run() {
  for (ConsumerOp& op : consumer_ops) {
    switch (op.kind) {
      case ConsumerOp::Kind::Flow: op.subscription->flow(*op.consumer, op.permits); break;
      case ConsumerOp::Kind::Redeliver:
        op.subscription->redeliver(*op.consumer, op.positions, op.epoch);
        break;
      case ConsumerOp::Kind::TransactionAck: run_transaction_ack(op); break;
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
