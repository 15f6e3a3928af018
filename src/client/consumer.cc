#include "client/consumer.h"

#include <fmt/format.h>

#include <bit>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "wire/batch.h"
#include "wire/protobuf_fields.h"

namespace geminga::client {

namespace {
using boost::system::error_code;
using pulsar::proto::BaseCommand;
using pulsar::proto::CommandAck;
}  // namespace

std::optional<std::string_view> ReceivedMessage::property(std::string_view name) const {
  const std::uint32_t field = in_batch ? 1 : 4;
  FieldReader fields(encoded_metadata);
  while (fields.next()) {
    if (fields.tag() != bytes_tag(field)) continue;
    std::string_view key;
    std::string_view value;
    FieldReader pair(fields.bytes());
    while (pair.next()) {
      if (pair.tag() == bytes_tag(1)) key = pair.bytes();
      if (pair.tag() == bytes_tag(2)) value = pair.bytes();
    }
    if (key == name) return value;
  }
  return std::nullopt;
}

Consumer::Consumer(std::shared_ptr<Connection> connection, ConsumerOptions options)
    : connection_(std::move(connection)),
      options_(std::move(options)),
      ack_timer_(connection_->io()) {}

Consumer::~Consumer() {
  if (!open_) return;
  connection_->detach_consumer(id_);
  BaseCommand command;
  command.set_type(BaseCommand::CLOSE_CONSUMER);
  command.mutable_close_consumer()->set_consumer_id(id_);
  command.mutable_close_consumer()->set_request_id(connection_->next_request_id());
  connection_->send(command);
}

Task<Result<std::shared_ptr<Consumer>>> Consumer::open(std::shared_ptr<Connection> connection,
                                                       ConsumerOptions options) {
  std::shared_ptr<Consumer> consumer(new Consumer(std::move(connection), std::move(options)));
  consumer->id_ = consumer->connection_->attach(*consumer);
  const Status status = co_await consumer->subscribe();
  if (!status.is_ok()) {
    consumer->connection_->detach_consumer(consumer->id_);
    co_return status.with_context(fmt::format(
        "subscription {} on {}", consumer->options_.subscription, consumer->options_.topic));
  }
  co_return consumer;
}

Task<Status> Consumer::subscribe() {
  BaseCommand command;
  command.set_type(BaseCommand::SUBSCRIBE);
  auto& body = *command.mutable_subscribe();
  body.set_topic(options_.topic);
  body.set_subscription(options_.subscription);
  body.set_subtype(static_cast<pulsar::proto::CommandSubscribe::SubType>(options_.type));
  body.set_consumer_id(id_);
  const std::uint64_t request_id = connection_->next_request_id();
  body.set_request_id(request_id);
  if (!options_.name.empty()) body.set_consumer_name(options_.name);
  body.set_durable(options_.durable);
  body.set_read_compacted(options_.read_compacted);
  body.set_initialposition(options_.from_earliest ? pulsar::proto::CommandSubscribe::Earliest
                                                  : pulsar::proto::CommandSubscribe::Latest);
  if (!options_.durable && options_.start) {
    body.mutable_start_message_id()->set_ledgerid(
        static_cast<std::uint64_t>(options_.start->ledger));
    body.mutable_start_message_id()->set_entryid(static_cast<std::uint64_t>(options_.start->entry));
  }
  if (options_.type == SubscriptionType::KeyShared) {
    body.mutable_keysharedmeta()->set_keysharedmode(pulsar::proto::AUTO_SPLIT);
  }
  for (const auto& [key, value] : options_.properties) {
    auto* property = body.add_metadata();
    property->set_key(key);
    property->set_value(value);
  }
  const auto answer = co_await connection_->request(std::move(command), request_id);
  if (!answer.is_ok()) co_return answer.status();
  open_ = true;
  permits_owed_ = 0;
  send_flow(options_.receiver_queue);
  co_return Status::ok();
}

void Consumer::send_flow(std::uint32_t permits) {
  if (!open_ || !connection_->is_open() || permits == 0) return;
  const FlowCommand flow{id_, permits};
  encode(flow, connection_->append(encoded_size(flow)));
}

void Consumer::give_permits(std::uint32_t count) {
  permits_owed_ += count;
  if (paused_ || permits_owed_ < (options_.receiver_queue + 1) / 2) return;
  send_flow(std::exchange(permits_owed_, 0));
}

void Consumer::resume() {
  paused_ = false;
  give_permits(0);
}

void Consumer::on_entry(const MessageCommand& message, std::span<const std::byte> entry) {
  if (!open_) return;
  const auto self = shared_from_this();
  const auto parts = split_entry(entry);
  const auto parsed =
      parts ? parse_entry_metadata(entry, *parts) : Result<EntryMetadata>(parts.status());
  if (!parsed) return drop_damaged(message, 1, CommandAck::BatchDeSerializeError);
  const EntryMetadata& metadata = *parsed;
  const auto messages = static_cast<std::uint32_t>(std::max(metadata.num_messages, 1));
  if (options_.verify_checksums && verify_checksum(entry, *parts) == ChecksumVerdict::Mismatch) {
    return drop_damaged(message, messages, CommandAck::ChecksumMismatch);
  }
  auto payload = parts->payload;
  Buffer uncompressed;
  // Encrypted payloads are opaque; a chunk is a slice of the compressed whole.
  const bool opaque = metadata.is_encrypted() || metadata.is_chunk();
  if (metadata.compression != 0 && !opaque) {
    auto unpacked = decompress(static_cast<Codec>(metadata.compression), payload,
                               metadata.uncompressed_size, options_.max_uncompressed);
    if (!unpacked) return drop_damaged(message, messages, CommandAck::DecompressionError);
    uncompressed = std::move(unpacked).value();
    payload = uncompressed.span();
  }
  if (metadata.is_batch && !opaque) {
    deliver_batch(message, metadata, payload);
    return;
  }
  ReceivedMessage received{{message.message_id, message.partition, -1, 0},
                           metadata,
                           payload,
                           metadata.partition_key,
                           metadata.ordering_key,
                           metadata.sequence_id,
                           metadata.event_time,
                           message.redelivery_count,
                           parts->metadata,
                           false};
  if (options_.on_message) options_.on_message(received);
  give_permits(messages);
}

void Consumer::deliver_batch(const MessageCommand& message, const EntryMetadata& metadata,
                             std::span<const std::byte> payload) {
  const auto size = static_cast<std::uint32_t>(std::max(metadata.num_messages, 0));
  // A count that the payload cannot hold (a slot has five bytes at least) is not believed.
  if (size > payload.size() / 5)
    return drop_damaged(message, size, CommandAck::BatchDeSerializeError);
  current_batch_ = message.message_id;
  current_acks_.count = 0;
  current_acks_.left.assign((size + 63) / 64, 0);
  for (std::uint32_t i = 0; i < size; ++i) {
    if (message.has_ack_set && !ack_set_bit(message, i)) continue;
    current_acks_.left[i / 64] |= std::uint64_t{1} << (i % 64);
    ++current_acks_.count;
  }
  BatchReader reader(payload, metadata.num_messages);
  std::uint32_t consumed = 0;
  for (std::int32_t i = 0; open_; ++i) {
    const auto single = reader.next();
    if (!single) break;
    if (message.has_ack_set && !ack_set_bit(message, static_cast<std::uint32_t>(i))) continue;
    ++consumed;
    const MessageId id{message.message_id, message.partition, i, static_cast<std::int32_t>(size)};
    if (single->compacted_out) {
      ack(id);
      continue;
    }
    ReceivedMessage received{id,
                             metadata,
                             single->payload,
                             single->partition_key,
                             single->ordering_key,
                             single->sequence_id.value_or(metadata.sequence_id + i),
                             static_cast<std::int64_t>(single->event_time),
                             message.redelivery_count,
                             single->metadata,
                             true};
    if (options_.on_message) options_.on_message(received);
  }
  if (current_acks_.count > 0 && open_) partial_[current_batch_] = std::move(current_acks_);
  current_batch_ = {};
  current_acks_ = {};
  if (!reader.ok())
    return drop_damaged(message, size - consumed, CommandAck::BatchDeSerializeError);
  give_permits(consumed);
}

void Consumer::drop_damaged(const MessageCommand& message, std::uint32_t messages,
                            int validation_error) {
  ++damaged_;
  BaseCommand command;
  command.set_type(BaseCommand::ACK);
  auto& body = *command.mutable_ack();
  body.set_consumer_id(id_);
  body.set_ack_type(CommandAck::Individual);
  body.set_validation_error(static_cast<CommandAck::ValidationError>(validation_error));
  auto* id = body.add_message_id();
  id->set_ledgerid(static_cast<std::uint64_t>(message.message_id.ledger));
  id->set_entryid(static_cast<std::uint64_t>(message.message_id.entry));
  connection_->send(command);
  give_permits(messages);
}

bool Consumer::batch_complete(BatchAcks& acks, std::int32_t index) {
  const auto bit = static_cast<std::uint32_t>(index);
  if (bit / 64 >= acks.left.size()) return false;
  std::uint64_t& word = acks.left[bit / 64];
  const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
  if ((word & mask) == 0) return false;
  word &= ~mask;
  return --acks.count == 0;
}

void Consumer::ack(const MessageId& id) {
  if (!open_) return;
  if (id.batch_index >= 0) {
    if (id.position == current_batch_) {
      if (!batch_complete(current_acks_, id.batch_index)) return;
    } else {
      const auto found = partial_.find(id.position);
      if (found == partial_.end() || !batch_complete(found->second, id.batch_index)) return;
      partial_.erase(found);
    }
  }
  add_ack(id.position);
}

void Consumer::ack_cumulative(const MessageId& id) {
  if (!open_) return;
  // Part of a batch: all before it.
  Position position = id.position;
  if (id.batch_index >= 0 && id.batch_index + 1 < id.batch_size) --position.entry;
  if (position.entry < 0) return;  // nothing of this ledger is complete yet
  if (!cumulative_ack_ || *cumulative_ack_ < position) cumulative_ack_ = position;
  std::erase_if(partial_, [&](const auto& item) { return item.first <= position; });
  add_ack({});
}

void Consumer::add_ack(Position position) {
  if (position != Position{}) acks_.push_back(position);
  if (acks_.size() >= options_.ack_group) return flush_acks();
  if (ack_timer_armed_) return;
  ack_timer_armed_ = true;
  ack_timer_.expires_after(options_.ack_delay);
  ack_timer_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!self) return;
    self->ack_timer_armed_ = false;
    if (!error) self->flush_acks();
  });
}

void Consumer::flush_acks() {
  if (!open_ || !connection_->is_open()) return;
  if (cumulative_ack_) {
    const Position position = *std::exchange(cumulative_ack_, std::nullopt);
    const AckRequest request{id_, true, {&position, 1}};
    encode(request, connection_->append(encoded_size(request)));
  }
  if (acks_.empty()) return;
  const AckRequest request{id_, false, acks_};
  encode(request, connection_->append(encoded_size(request)));
  acks_.clear();
}

void Consumer::redeliver_unacked() {
  if (!open_) return;
  flush_acks();
  partial_.clear();
  BaseCommand command;
  command.set_type(BaseCommand::REDELIVER_UNACKNOWLEDGED_MESSAGES);
  command.mutable_redeliverunacknowledgedmessages()->set_consumer_id(id_);
  connection_->send(command);
}

void Consumer::on_active_change(bool active) {
  const auto self = shared_from_this();
  if (options_.on_active) options_.on_active(active);
}

void Consumer::on_end(const Status& why) {
  const auto self = shared_from_this();
  if (!open_) return;
  open_ = false;
  partial_.clear();
  acks_.clear();
  if (seeking_ && connection_->is_open()) return;  // seek() subscribes again
  connection_->detach_consumer(id_);
  if (options_.on_closed) options_.on_closed(why);
}

Task<Status> Consumer::finish(BaseCommand command, std::uint64_t request_id) {
  const auto answer = co_await connection_->request(std::move(command), request_id);
  co_return answer.status();
}

Task<Status> Consumer::seek(Position position) {
  const auto self = shared_from_this();
  if (!open_) co_return Status::Closed("the consumer is closed");
  flush_acks();
  BaseCommand command;
  command.set_type(BaseCommand::SEEK);
  const std::uint64_t request_id = connection_->next_request_id();
  auto& body = *command.mutable_seek();
  body.set_consumer_id(id_);
  body.set_request_id(request_id);
  body.mutable_message_id()->set_ledgerid(static_cast<std::uint64_t>(position.ledger));
  body.mutable_message_id()->set_entryid(static_cast<std::uint64_t>(position.entry));
  seeking_ = true;
  Status status = co_await finish(std::move(command), request_id);
  // The broker has closed the consumer before it answers.
  const bool again = !open_ && connection_->is_open();
  if (again) {
    const Status subscribed = co_await subscribe();
    if (status.is_ok()) status = subscribed;
  }
  seeking_ = false;
  co_return status;
}

Task<Result<MessageId>> Consumer::last_message_id() {
  const auto self = shared_from_this();
  BaseCommand command;
  command.set_type(BaseCommand::GET_LAST_MESSAGE_ID);
  const std::uint64_t request_id = connection_->next_request_id();
  command.mutable_getlastmessageid()->set_consumer_id(id_);
  command.mutable_getlastmessageid()->set_request_id(request_id);
  const auto answer = co_await connection_->request(std::move(command), request_id);
  if (!answer.is_ok()) co_return answer.status();
  const auto& id = answer->getlastmessageidresponse().last_message_id();
  co_return MessageId{{static_cast<LedgerId>(id.ledgerid()), static_cast<EntryId>(id.entryid())},
                      id.partition(),
                      id.batch_index(),
                      0};
}

Task<Status> Consumer::unsubscribe() {
  const auto self = shared_from_this();
  if (!open_) co_return Status::Closed("the consumer is closed");
  BaseCommand command;
  command.set_type(BaseCommand::UNSUBSCRIBE);
  const std::uint64_t request_id = connection_->next_request_id();
  command.mutable_unsubscribe()->set_consumer_id(id_);
  command.mutable_unsubscribe()->set_request_id(request_id);
  const Status status = co_await finish(std::move(command), request_id);
  if (status.is_ok() && open_) {
    open_ = false;
    connection_->detach_consumer(id_);
  }
  co_return status;
}

Task<Status> Consumer::close() {
  const auto self = shared_from_this();
  if (!open_) co_return Status::ok();
  flush_acks();
  open_ = false;
  BaseCommand command;
  command.set_type(BaseCommand::CLOSE_CONSUMER);
  const std::uint64_t request_id = connection_->next_request_id();
  command.mutable_close_consumer()->set_consumer_id(id_);
  command.mutable_close_consumer()->set_request_id(request_id);
  const Status status = co_await finish(std::move(command), request_id);
  connection_->detach_consumer(id_);
  co_return status;
}

}  // namespace geminga::client
