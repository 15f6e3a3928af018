// The session's read path: frames to work for topic shards, or to handlers.
#include <fmt/format.h>

#include "PulsarApi.pb.h"
#include "base/config.h"
#include "base/log.h"
#include "broker/ack_reply.h"
#include "broker/broker.h"
#include "broker/handlers/handlers.h"
#include "broker/session.h"
#include "broker/shard_work.h"
#include "wire/message_encoding.h"
#include "wire/message_metadata.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;

// What the chunk being parsed holds, by shard. One a thread: a chunk is parsed and handed over
// without a pause, so sessions of a shard never need it at the same time, and idle connections hold
// no buffers.
struct Gathered {
  std::vector<std::unique_ptr<ShardWork>> by_shard;
  std::vector<unsigned> touched;
  AckCommand ack;

  ShardWork& on(Shard& shard) {
    if (by_shard.size() <= shard.id()) by_shard.resize(shard.id() + 1);
    auto& work = by_shard[shard.id()];
    if (work == nullptr) work = std::make_unique<ShardWork>();
    if (work->empty()) touched.push_back(shard.id());
    return *work;
  }
};
Gathered& gathered() {
  thread_local Gathered instance;
  return instance;
}

}  // namespace

Session::Consumed Session::received(const Buffer& input) {
  Consumed consumed;
  chunk_has_sends_ = false;
  ++chunk_;
  while (!closed()) {
    const NextFrame next = next_frame(input.span().subspan(consumed.bytes),
                                      max_frame_size(settings_.max_message_size));
    if (next.state == NextFrame::State::Bad) {
      flush_work();
      close(next.error.message());
      break;
    }
    if (next.state == NextFrame::State::NeedMore) {
      consumed.needed = next.needed;
      break;
    }
    handle(next.frame, input);
    consumed.bytes += next.frame.size;
  }
  flush_work();
  hold_if_due();
  return consumed;
}

void Session::handle(const Frame& frame, const Buffer& input) {
  ++frames_received_;
  ping_unanswered_ = false;
  if (probe_ != nullptr) probe_->cancel();
  const int type = peek_command_type(frame.command);
  if (type == BaseCommand::PING) return pong();
  if (type == BaseCommand::PONG) return;
  if ((state_ == State::Start) != (type == BaseCommand::CONNECT)) {
    return close(state_ == State::Start ? fmt::format("command {} before CONNECT", type)
                                        : "a second CONNECT");
  }
  switch (type) {
    case BaseCommand::SEND: return handle_send(frame, input);
    case BaseCommand::ACK: return handle_ack(frame);
    case BaseCommand::FLOW: return handle_flow(frame);
    default: return start_control(frame);
  }
}

void Session::handle_send(const Frame& frame, const Buffer& input) {
  const auto send = decode_send(frame.command);
  if (!send) return close("malformed SEND");
  const auto at = producers_.find(send->producer_id);
  if (at == producers_.end() || !at->second.ready) {
    // Sent before the client has read that the broker closed its producer.
    if (closed_producers_.contains(send->producer_id)) return;
    return close(fmt::format("SEND for producer {}, which is not there", send->producer_id));
  }
  ProducerSlot& slot = at->second;
  ShardWork& work = gathered().on(*slot.shard);
  if (slot.chunk != chunk_) {
    slot.chunk = chunk_;
    slot.group = work.add_publish_group(slot.topic);
  }
  PublishItem item;
  item.producer = slot.producer;
  item.sequence_id = static_cast<std::uint64_t>(send->sequence_id);
  item.has_highest_sequence_id = send->highest_sequence_id.has_value();
  item.highest_sequence_id = static_cast<std::uint64_t>(send->highest_sequence_id.value_or(-1));
  item.is_chunk = send->is_chunk;
  item.is_marker = send->marker;
  item.txn = send->txn;
  item.messages = send->num_messages > 0 ? static_cast<std::uint32_t>(send->num_messages) : 1;
  item.entry =
      input.slice(static_cast<std::size_t>(frame.rest.data() - input.data()), frame.rest.size());
  if (verify_checksum(frame.rest) == ChecksumVerdict::Mismatch) {
    item.refused = Status::Checksum("checksum of the message does not match its bytes");
  } else if (const auto metadata = parse_entry_metadata(frame.rest); !metadata) {
    // What cannot be read now could never be delivered.
    item.refused = Status::Metadata(metadata.status().message());
  } else if (metadata->txn && send->txn != metadata->txn) {
    item.refused = Status::NotAllowed("SEND and its metadata name different transactions");
  } else if (send->txn && !broker_.config().transaction_coordinator_enabled) {
    item.refused = Status::NotAllowed("SEND in a transaction: transactions are not enabled");
  } else if (send->txn && !slot.topic->name().persistent()) {
    item.refused = Status::NotAllowed("Transactions are not supported by non-persistent topics");
  } else if (send->message_id) {
    item.refused =
        Status::NotAllowed("SEND with a message id: only the replicator of a shadow topic may");
  } else {
    item.deliver_at_time = metadata->deliver_at_time;
    if (send->txn && !metadata->txn) {
      // What is stored must say whose it is: after a restart nothing else does.
      auto with_txn = entry_with_txn(frame.rest, *send->txn);
      if (with_txn) {
        item.entry = std::move(*with_txn);
      } else {
        item.refused = with_txn.status();
      }
    }
  }
  work.publishes[slot.group].items.push_back(std::move(item));
  ++publishes_in_flight_;
  chunk_has_sends_ = true;
}

void Session::handle_ack(const Frame& frame) {
  AckCommand& ack = gathered().ack;
  if (!decode_ack(frame.command, ack)) return close("malformed ACK");
  ConsumerSlot* slot = consumer(ack.consumer_id);
  if (slot == nullptr) return;  // closed meanwhile
  if (ack.txn && !broker_.config().transaction_coordinator_enabled) {
    if (ack.request_id) {
      write_frame(
          ack_response(ack.consumer_id, *ack.request_id,
                       Status::NotAllowed("ACK in a transaction: transactions are not enabled")));
    }
    return;
  }
  using Kind = ShardWork::ConsumerOp::Kind;
  const Kind plain = ack.cumulative ? Kind::CumulativeAck : Kind::Ack;
  const Kind kind = ack.txn ? Kind::TransactionAck : plain;
  ShardWork& work = gathered().on(*slot->shard);
  ShardWork::ConsumerOp* op = work.consumer_ops.empty() ? nullptr : &work.consumer_ops.back();
  // Individual acks of one consumer in a row are one call.
  if (op == nullptr || kind != Kind::Ack || op->kind != Kind::Ack ||
      op->consumer != slot->consumer) {
    op = &work.add_consumer_op(kind, slot->subscription, slot->consumer);
    op->consumer_id = ack.consumer_id;
    op->outbox = slot->outbox;
    op->txn = ack.txn.value_or(TxnId());
    op->cumulative = ack.cumulative;
  }
  for (const AckCommand::Id& id : ack.ids) {
    AckedMessage& message = op->messages.emplace_back();
    message.position = id.position;
    const auto words = ack.ack_set(id);
    message.remaining.assign(words.begin(), words.end());
    message.batch_size = id.batch_size > 0 ? static_cast<std::uint32_t>(id.batch_size) : 0;
  }
  if (ack.request_id) op->request_ids.push_back(*ack.request_id);
  if (ack.validation_error) {
    GM_LOG_WARN(
        "consumer {} of {} could not read {} messages of {} (validation error {}); acknowledged",
        ack.consumer_id, peer().address, ack.ids.size(), slot->topic->name().full(),
        *ack.validation_error);
  }
}

void Session::handle_flow(const Frame& frame) {
  const auto flow = decode_flow(frame.command);
  if (!flow) return close("malformed FLOW");
  if (flow->permits == 0) return close("FLOW with no permits");
  ConsumerSlot* slot = consumer(flow->consumer_id);
  if (slot == nullptr) return;
  ShardWork& work = gathered().on(*slot->shard);
  work.add_consumer_op(ShardWork::ConsumerOp::Kind::Flow, slot->subscription, slot->consumer)
      .permits = flow->permits;
}

void Session::handle_redeliver(const BaseCommand& command) {
  const auto& redeliver = command.redeliverunacknowledgedmessages();
  ConsumerSlot* slot = consumer(redeliver.consumer_id());
  if (slot == nullptr) return;
  auto& op = gathered()
                 .on(*slot->shard)
                 .add_consumer_op(ShardWork::ConsumerOp::Kind::Redeliver, slot->subscription,
                                  slot->consumer);
  for (const auto& id : redeliver.message_ids()) {
    op.positions.push_back(
        {static_cast<std::int64_t>(id.ledgerid()), static_cast<std::int64_t>(id.entryid())});
  }
  if (redeliver.has_consumer_epoch())
    op.epoch = static_cast<std::int64_t>(redeliver.consumer_epoch());
}

void Session::start_control(const Frame& frame) {
  Result<BaseCommand> parsed = parse_command(frame.command);
  if (!parsed) {
    if (const auto request_id = request_of_unknown_command(frame.command)) {
      return reply_error(*request_id,
                         Status::NotAllowed(fmt::format("command {} is not known to this broker",
                                                        peek_command_type(frame.command))));
    }
    return close(parsed.status().message());
  }
  if (parsed->type() == BaseCommand::REDELIVER_UNACKNOWLEDGED_MESSAGES)
    return handle_redeliver(*parsed);
  // What came before the command must reach the topics before it.
  flush_work();
  ++chunk_;
  if (parsed->type() == BaseCommand::CONNECT) return handle_connect(*this, *parsed);
  const Handler handler = handler_of(parsed->type());
  if (handler == nullptr) {
    return close(
        fmt::format("{} is no command for a broker", BaseCommand::Type_Name(parsed->type())));
  }
  spawn(shard_, gate_,
        [self = shared_from_this(), handler, command = std::move(*parsed)]() mutable -> Task<void> {
          co_await handler(self, std::move(command));
          self->control_done();
        });
}

void Session::flush_work() {
  Gathered& all = gathered();
  if (all.touched.empty()) return;
  for (const unsigned id : all.touched) {
    auto& work = all.by_shard[id];
    Shard& shard = broker_.runtime().shard(id);
    if (shard.is_current()) {
      work->run();
    } else {
      shard.post([work = std::move(work)] { work->run(); });
    }
  }
  all.touched.clear();
}

}  // namespace geminga
