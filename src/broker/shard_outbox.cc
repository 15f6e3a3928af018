#include "broker/shard_outbox.h"

#include <algorithm>

#include "PulsarApi.pb.h"
#include "broker/broker_metrics.h"
#include "broker/entry_stamp.h"
#include "broker/session.h"
#include "runtime/async.h"
#include "wire/command.h"

namespace geminga {

namespace {

namespace proto = pulsar::proto;

constexpr std::uint64_t kNoRequest = ~std::uint64_t{0};  // CLOSE_* by the broker

}  // namespace

ShardOutbox::~ShardOutbox() {
  if (piece_.block != nullptr) piece_.block->unref();
}

void ShardOutbox::schedule() {
  if (batch_ == nullptr) batch_ = std::make_unique<OutBatch>();
  if (alive_ != nullptr) return;
  alive_ = shared_from_this();
  shard_.defer(*this);
}

std::byte* ShardOutbox::room(std::size_t size) {
  schedule();
  FrameArena& arena = FrameArena::of_this_thread();
  if (!arena.grow(piece_, size)) {
    cut();
    piece_ = arena.take(size);
  }
  std::byte* at = piece_.block->data() + piece_.used;
  piece_.used += size;
  batch_->bytes += static_cast<std::int64_t>(size);
  return at;
}

void ShardOutbox::cut() {
  if (piece_.block == nullptr) return;
  batch_->pieces.push_back(FrameArena::of_this_thread().seal(piece_));
}

void ShardOutbox::append(Buffer piece) {
  schedule();
  cut();
  batch_->bytes += static_cast<std::int64_t>(piece.size());
  batch_->pieces.push_back(std::move(piece));
}

void ShardOutbox::send_receipt(std::uint64_t producer_id, std::uint64_t sequence_id,
                               std::uint64_t highest_sequence_id, Position position) {
  if (!connected()) return;
  SendReceipt receipt;
  receipt.producer_id = producer_id;
  receipt.sequence_id = static_cast<std::int64_t>(sequence_id);
  receipt.message_id = position;
  receipt.highest_sequence_id = static_cast<std::int64_t>(highest_sequence_id);
  encode(receipt, room(encoded_size(receipt)));
  ++batch_->publishes_done;
}

void ShardOutbox::send_error(std::uint64_t producer_id, std::uint64_t sequence_id,
                             const Status& status) {
  if (!connected()) return;
  const ErrorInfo& info = error_info(status.code());
  SendError error;
  error.producer_id = producer_id;
  error.sequence_id = static_cast<std::int64_t>(sequence_id);
  error.error = info.wire_code;
  link_->metrics.of(shard_.id()).sends_refused.add();
  error.message = status.message().empty() ? info.text : std::string_view(status.message());
  encode(error, room(encoded_size(error)));
  ++batch_->publishes_done;
}

void ShardOutbox::send_message(const Delivery& delivery, const Buffer& stored) {
  if (!connected()) return;
  const Buffer entry = peer().supports_broker_entry_metadata ? stored : without_stamp(stored);
  MessageHeader header;
  header.consumer_id = delivery.consumer_id;
  header.message_id = delivery.position;
  header.partition = delivery.partition;
  header.redelivery_count = delivery.redelivery_count;
  header.ack_set = delivery.ack_set;
  if (delivery.consumer_epoch >= 0) header.consumer_epoch = delivery.consumer_epoch;
  header.entry_size = entry.size();
  const std::size_t head = encoded_size(header);
  if (entry.size() <= kCopyLimit) {
    std::byte* to = encode(header, room(head + entry.size()));
    std::memcpy(to, entry.data(), entry.size());
  } else {
    encode(header, room(head));
    append(entry);
  }
}

void ShardOutbox::send_active_consumer_change(std::uint64_t consumer_id, bool active) {
  if (peer().protocol_version < 12) return;
  proto::BaseCommand command;
  command.set_type(proto::BaseCommand::ACTIVE_CONSUMER_CHANGE);
  command.mutable_active_consumer_change()->set_consumer_id(consumer_id);
  command.mutable_active_consumer_change()->set_is_active(active);
  send_frame(encode_command(command));
}

void ShardOutbox::send_close_consumer(std::uint64_t consumer_id) {
  if (!connected()) return;
  proto::BaseCommand command;
  command.set_type(proto::BaseCommand::CLOSE_CONSUMER);
  command.mutable_close_consumer()->set_consumer_id(consumer_id);
  command.mutable_close_consumer()->set_request_id(kNoRequest);
  send_frame(encode_command(command));
  batch_->forgotten.push_back({OutBatch::Forgotten::Kind::Consumer, consumer_id, true});
}

void ShardOutbox::send_close_producer(std::uint64_t producer_id) {
  if (!connected()) return;
  proto::BaseCommand command;
  command.set_type(proto::BaseCommand::CLOSE_PRODUCER);
  command.mutable_close_producer()->set_producer_id(producer_id);
  command.mutable_close_producer()->set_request_id(kNoRequest);
  send_frame(encode_command(command));
  batch_->forgotten.push_back({OutBatch::Forgotten::Kind::Producer, producer_id, true});
}

void ShardOutbox::send_reached_end_of_topic(std::uint64_t consumer_id) {
  // The C++ and Go clients close the whole connection when they see this command.
  if (!peer().is_java() || peer().protocol_version < 9) return;
  proto::BaseCommand command;
  command.set_type(proto::BaseCommand::REACHED_END_OF_TOPIC);
  command.mutable_reachedendoftopic()->set_consumer_id(consumer_id);
  send_frame(encode_command(command));
}

void ShardOutbox::forget_producer(std::uint64_t producer_id) {
  if (!connected()) return;
  schedule();
  batch_->forgotten.push_back({OutBatch::Forgotten::Kind::Producer, producer_id, false});
}

void ShardOutbox::forget_publishes(std::uint32_t count) {
  link_->metrics.of(shard_.id()).sends_dropped.add(count);
  if (!connected()) return;
  schedule();
  batch_->publishes_done += static_cast<std::int32_t>(count);
}

void ShardOutbox::set_publishes_aside(std::uint32_t count) {
  if (!connected()) return;
  schedule();
  batch_->publishes_done += static_cast<std::int32_t>(count);
}

void ShardOutbox::resume_publishes(std::uint32_t count) {
  if (!connected()) return;
  schedule();
  batch_->publishes_done -= static_cast<std::int32_t>(count);
}

void ShardOutbox::send_frame(Buffer frame) {
  if (!connected()) return;
  if (frame.size() <= kCopyLimit) {
    std::memcpy(room(frame.size()), frame.data(), frame.size());
  } else {
    append(std::move(frame));
  }
}

void ShardOutbox::close_connection(std::string reason) {
  if (!connected()) return;
  schedule();
  if (batch_->close_reason.empty()) batch_->close_reason = std::move(reason);
}

void ShardOutbox::run_deferred() {
  // May be the last reference.
  const std::shared_ptr<ShardOutbox> alive = std::exchange(alive_, nullptr);
  if (batch_ != nullptr) {
    cut();
    auto batch = std::exchange(batch_, nullptr);
    if (connected()) {
      link_->memory.take(MemoryUse::Delivery, static_cast<std::size_t>(batch->bytes));
      link_->unwritten.fetch_add(batch->bytes);
      if (link_->shard.is_current()) {
        Session::deliver(*link_, std::move(batch));
      } else {
        link_->shard.post([link = link_, batch = std::move(batch)]() mutable {
          Session::deliver(*link, std::move(batch));
        });
      }
    }
  }
  if (!notify_) return;
  notify_ = false;
  // A listener may remove itself or others, or add new ones (which are not called this time).
  notifying_ = true;
  const std::size_t count = listeners_.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (listeners_[i] != nullptr) listeners_[i]->outbox_writable();
  }
  notifying_ = false;
  std::erase(listeners_, nullptr);
}

bool ShardOutbox::writable() const {
  if (!connected() || waiting_.load()) return false;
  const std::int64_t gathered = batch_ == nullptr ? 0 : batch_->bytes;
  if (link_->unwritten.load() + gathered < link_->watermarks.high) return true;
  // Registered first, looked again after: the connection may have drained in between and would not
  // look again.
  waiting_.store(true);
  if (gathered == 0 && link_->unwritten.load() < link_->watermarks.low && waiting_.exchange(false))
    return true;
  return false;
}

void ShardOutbox::became_writable() {
  notify_ = true;
  if (alive_ != nullptr) return;
  alive_ = shared_from_this();
  shard_.defer(*this);
}

void ShardOutbox::add_writable_listener(WritableListener* listener) {
  listeners_.push_back(listener);
}

void ShardOutbox::remove_writable_listener(WritableListener* listener) {
  // A hole, not a gap, while run_deferred() walks the list.
  std::replace(listeners_.begin(), listeners_.end(), listener,
               static_cast<WritableListener*>(nullptr));
  if (!notifying_) std::erase(listeners_, nullptr);
}

Task<bool> ShardOutbox::probe_alive(std::chrono::milliseconds timeout) {
  auto link = link_;
  auto work = [link, timeout]() -> Task<bool> {
    if (link->session == nullptr) co_return false;
    auto session = link->session->shared_from_this();
    co_return co_await session->probe_alive(timeout);
  };
  co_return co_await on_shard(link->shard, std::move(work));
}

}  // namespace geminga
