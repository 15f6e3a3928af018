#include "client/producer.h"

#include <fmt/format.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <limits>

#include "base/clock.h"

namespace geminga::client {

namespace {
using boost::system::error_code;

Status status_of_send_error(const SendError& error) {
  using pulsar::proto::ServerError;
  std::string message(error.message);
  switch (error.error) {
    case ServerError::ChecksumError: return Status::Checksum(std::move(message));
    case ServerError::NotAllowedError: return Status::NotAllowed(std::move(message));
    case ServerError::TopicTerminatedError: return Status::TopicTerminated(std::move(message));
    case ServerError::MetadataError: return Status::Metadata(std::move(message));
    default: return Status::Persistence(std::move(message));
  }
}
}  // namespace

Producer::Producer(std::shared_ptr<Connection> connection, ProducerOptions options)
    : connection_(std::move(connection)),
      options_(std::move(options)),
      batch_timer_(connection_->io()),
      drained_(connection_->io(), asio::steady_timer::time_point::max()) {}

Producer::~Producer() {
  if (!open_) return;
  // Dropped without close(): the broker is told, nobody waits for its answer.
  connection_->detach_producer(id_);
  Connection::Command command;
  command.set_type(Connection::Command::CLOSE_PRODUCER);
  command.mutable_close_producer()->set_producer_id(id_);
  command.mutable_close_producer()->set_request_id(connection_->next_request_id());
  connection_->send(command);
}

Task<Result<std::shared_ptr<Producer>>> Producer::open(std::shared_ptr<Connection> connection,
                                                       ProducerOptions options) {
  std::shared_ptr<Producer> producer(new Producer(std::move(connection), std::move(options)));
  Connection& wire = *producer->connection_;
  const ProducerOptions& wanted = producer->options_;
  producer->id_ = wire.attach(*producer);
  Connection::Command command;
  command.set_type(Connection::Command::PRODUCER);
  auto& body = *command.mutable_producer();
  body.set_topic(wanted.topic);
  body.set_producer_id(producer->id_);
  const std::uint64_t request_id = wire.next_request_id();
  body.set_request_id(request_id);
  if (!wanted.name.empty()) body.set_producer_name(wanted.name);
  body.set_user_provided_producer_name(!wanted.name.empty());
  body.set_producer_access_mode(static_cast<pulsar::proto::ProducerAccessMode>(wanted.access));
  if (!wanted.initial_subscription.empty()) {
    body.set_initial_subscription_name(wanted.initial_subscription);
  }
  for (const auto& [key, value] : wanted.properties) {
    auto* property = body.add_metadata();
    property->set_key(key);
    property->set_value(value);
  }
  auto answer = co_await wire.request(std::move(command), request_id);
  if (answer.is_ok() && answer->type() != Connection::Command::PRODUCER_SUCCESS) {
    answer = Status::Protocol("PRODUCER was not answered with PRODUCER_SUCCESS");
  }
  if (!answer.is_ok()) {
    wire.detach_producer(producer->id_);
    co_return answer.status().with_context(fmt::format("producer on {}", wanted.topic));
  }
  producer->name_ = answer->producer_success().producer_name();
  producer->next_sequence_id_ = answer->producer_success().last_sequence_id() + 1;
  producer->open_ = true;
  co_return producer;
}

std::size_t Producer::size_limit() const { return connection_->max_message_size(); }

Status Producer::send(const OutgoingMessage& message, std::uint64_t context) {
  if (!open_)
    return Status::Closed(fmt::format("producer {} on {} is closed", name_, options_.topic));
  if (contexts_.size() >= options_.max_pending) {
    return Status::TooManyRequests(
        fmt::format("{} messages wait for their receipts", contexts_.size()));
  }
  if (message.payload.size() > size_limit()) {
    return Status::InvalidArgument(
        fmt::format("message of {} bytes is over the broker's limit of {}", message.payload.size(),
                    size_limit()));
  }
  const std::int64_t sequence_id = message.sequence_id.value_or(next_sequence_id_);
  if (options_.batching && message.deliver_at == 0) {
    // A message that would make the batch too large starts the next one.
    if (batch_size_ > 0 && batch_size_ + message.payload.size() > options_.batch_bytes) flush();
    contexts_.push_back(context);
    add_to_batch(message, sequence_id);
  } else {
    flush();
    GM_RETURN_IF_ERROR(send_alone(message, sequence_id));
    contexts_.push_back(context);
  }
  next_sequence_id_ = sequence_id + 1;
  return Status::ok();
}

void Producer::add_to_batch(const OutgoingMessage& message, std::int64_t sequence_id) {
  OutgoingSingle single;
  single.properties = message.properties;
  single.partition_key = message.key;
  single.ordering_key = message.ordering_key;
  single.event_time = message.event_time;
  single.sequence_id = sequence_id;
  single.payload_size = message.payload.size();
  if (batch_messages_ == 0) {
    batch_first_sequence_ = sequence_id;
    batch_since_ns_ = monotonic_ns();
    batch_has_key_ = message.key.data() != nullptr;
    batch_key_.assign(message.key);
    arm_batch_timer();
  }
  const std::size_t size = encoded_size(single) + message.payload.size();
  if (batch_.size() < batch_size_ + size)
    batch_.resize(std::max(batch_.size() * 2, batch_size_ + size));
  std::byte* at = encode(single, batch_.data() + batch_size_);
  if (!message.payload.empty()) std::memcpy(at, message.payload.data(), message.payload.size());
  batch_size_ += size;
  batch_last_sequence_ = sequence_id;
  ++batch_messages_;
  if (batch_messages_ >= options_.batch_messages || batch_size_ >= options_.batch_bytes) flush();
}

// The timer is not moved for each batch: when it fires it sees how old the batch of that moment is.
void Producer::arm_batch_timer() {
  if (batch_timer_armed_) return;
  batch_timer_armed_ = true;
  const auto due = std::chrono::nanoseconds(batch_since_ns_) + options_.batch_delay;
  batch_timer_.expires_at(asio::steady_timer::time_point(due));
  batch_timer_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!self) return;
    self->batch_timer_armed_ = false;
    if (error || self->batch_messages_ == 0) return;
    const auto age = std::chrono::nanoseconds(monotonic_ns() - self->batch_since_ns_);
    if (age >= self->options_.batch_delay) {
      self->flush();
    } else {
      self->arm_batch_timer();
    }
  });
}

void Producer::flush() {
  if (batch_messages_ == 0) return;
  const std::uint32_t messages = std::exchange(batch_messages_, 0);
  const std::size_t size = std::exchange(batch_size_, 0);
  OutgoingMetadata metadata;
  metadata.sequence_id = batch_first_sequence_;
  metadata.highest_sequence_id = batch_last_sequence_;
  metadata.num_messages_in_batch = static_cast<std::int32_t>(messages);
  if (batch_has_key_) metadata.partition_key = batch_key_;
  write_entry(metadata, std::span(batch_).first(size), messages);
}

Status Producer::send_alone(const OutgoingMessage& message, std::int64_t sequence_id) {
  OutgoingMetadata metadata;
  metadata.sequence_id = sequence_id;
  metadata.properties = message.properties;
  metadata.partition_key = message.key;
  metadata.ordering_key = message.ordering_key;
  metadata.event_time = message.event_time;
  metadata.deliver_at_time = message.deliver_at;
  const std::size_t entry =
      kEntryHeadSize + encoded_size(metadata) + name_.size() + message.payload.size();
  if (entry > size_limit() + kFrameOverhead / 2) {
    return Status::InvalidArgument(
        fmt::format("message of {} bytes with its metadata is over the limit", entry));
  }
  write_entry(metadata, message.payload, 1);
  return Status::ok();
}

void Producer::write_entry(const OutgoingMetadata& content, std::span<const std::byte> payload,
                           std::uint32_t messages) {
  OutgoingMetadata metadata = content;
  metadata.producer_name = name_;
  metadata.publish_time = now_ms();
  Buffer compressed;
  if (options_.compression != Codec::None) {
    auto packed = compress(options_.compression, payload);
    if (packed) {
      metadata.compression = static_cast<int>(options_.compression);
      metadata.uncompressed_size = static_cast<std::uint32_t>(payload.size());
      compressed = std::move(packed).value();
      payload = compressed.span();
    }
  }
  const std::size_t metadata_size = encoded_size(metadata);
  SendHeader header;
  header.producer_id = id_;
  header.sequence_id = metadata.sequence_id;
  header.num_messages = static_cast<std::int32_t>(messages);
  header.highest_sequence_id = metadata.highest_sequence_id;
  header.entry_size = kEntryHeadSize + metadata_size + payload.size();
  pending_.push_back({header.sequence_id, messages, metadata.num_messages_in_batch != 0});
  std::byte* at = encode(header, connection_->append(encoded_size(header) + header.entry_size));
  std::byte* end = encode(metadata, at + kEntryHeadSize);
  if (!payload.empty()) std::memcpy(end, payload.data(), payload.size());
  seal_entry({at, header.entry_size}, metadata_size);
}

void Producer::complete_head(const Status& status, Position id) {
  const Pending head = pending_.front();
  pending_.pop_front();
  for (std::uint32_t i = 0; i < head.messages; ++i) {
    const std::uint64_t context = contexts_.front();
    contexts_.pop_front();
    if (options_.on_receipt) {
      options_.on_receipt({context, status, id, head.batch ? static_cast<std::int32_t>(i) : -1});
    }
  }
  if (contexts_.empty()) drained_.cancel();
}

void Producer::on_receipt(const SendReceipt& receipt) {
  const auto self = shared_from_this();
  // Receipts come in the order of the SENDs; an older one repeats what was answered before.
  if (pending_.empty() || receipt.sequence_id < pending_.front().sequence_id) return;
  if (receipt.sequence_id > pending_.front().sequence_id) {
    connection_->close(
        Status::Protocol(fmt::format("receipt for message {} of {} came before that for {}",
                                     receipt.sequence_id, name_, pending_.front().sequence_id)));
    return;
  }
  static const Status kOk;
  complete_head(kOk, receipt.message_id);
}

void Producer::on_send_error(const SendError& error) {
  const auto self = shared_from_this();
  if (!pending_.empty()) complete_head(status_of_send_error(error), {});
}

void Producer::on_end(const Status& why) {
  const auto self = shared_from_this();
  if (!open_) return;
  open_ = false;
  ended_ = why;
  connection_->detach_producer(id_);
  fail_all(why);
  if (options_.on_closed) options_.on_closed(why);
}

void Producer::fail_all(const Status& why) {
  batch_messages_ = 0;
  batch_size_ = 0;
  pending_.clear();
  while (!contexts_.empty()) {
    const std::uint64_t context = contexts_.front();
    contexts_.pop_front();
    if (options_.on_receipt) options_.on_receipt({context, why, {}, -1});
  }
  drained_.cancel();
}

Task<Status> Producer::close() {
  const auto self = shared_from_this();
  if (!open_) co_return ended_;
  flush();
  error_code ignored;
  while (open_ && !contexts_.empty()) {
    co_await drained_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  if (!open_) co_return ended_;
  open_ = false;
  Connection::Command command;
  command.set_type(Connection::Command::CLOSE_PRODUCER);
  const std::uint64_t request_id = connection_->next_request_id();
  command.mutable_close_producer()->set_producer_id(id_);
  command.mutable_close_producer()->set_request_id(request_id);
  const auto answer = co_await connection_->request(std::move(command), request_id);
  connection_->detach_producer(id_);
  co_return answer.status();
}

}  // namespace geminga::client
