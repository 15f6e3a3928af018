#include "wire/client_command.h"

#include "PulsarApi.pb.h"
#include "wire/frame_head.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;

std::size_t body_size(const SendHeader& header) {
  std::size_t size = varint_field_size(header.producer_id) +
                     varint_field_size(static_cast<std::uint64_t>(header.sequence_id));
  if (header.num_messages != 1)
    size += varint_field_size(static_cast<std::uint64_t>(header.num_messages));
  if (header.highest_sequence_id) {
    size += varint_field_size(static_cast<std::uint64_t>(*header.highest_sequence_id));
  }
  return size;
}

std::size_t body_size(const FlowCommand& flow) {
  return varint_field_size(flow.consumer_id) + varint_field_size(flow.permits);
}

std::size_t body_size(const AckRequest& ack) {
  std::size_t size = varint_field_size(ack.consumer_id) + 2;
  for (const Position& id : ack.ids) size += bytes_field_size(position_size(id));
  return size;
}

std::optional<Position> parse_position(std::string_view bytes, std::int32_t* partition) {
  Position position;
  unsigned seen = 0;
  FieldReader fields(bytes);
  while (fields.next()) {
    switch (fields.tag()) {
      case varint_tag(1):
        position.ledger = fields.signed_value();
        seen |= 1;
        break;
      case varint_tag(2):
        position.entry = fields.signed_value();
        seen |= 2;
        break;
      case varint_tag(3):
        if (partition != nullptr) *partition = fields.int32();
        break;
      default: break;
    }
  }
  if (!fields.ok() || seen != 3) return std::nullopt;
  return position;
}

}  // namespace

std::size_t encoded_size(const SendHeader& header) { return hot_frame_size(body_size(header)); }

std::byte* encode(const SendHeader& header, std::byte* to) {
  to = put_frame_head(to, BaseCommand::SEND, body_size(header), header.entry_size);
  to = put_varint_field(to, 1, header.producer_id);
  to = put_varint_field(to, 2, static_cast<std::uint64_t>(header.sequence_id));
  if (header.num_messages != 1) {
    to = put_varint_field(to, 3, static_cast<std::uint64_t>(header.num_messages));
  }
  if (header.highest_sequence_id) {
    to = put_varint_field(to, 6, static_cast<std::uint64_t>(*header.highest_sequence_id));
  }
  return to;
}

std::size_t encoded_size(const FlowCommand& flow) { return hot_frame_size(body_size(flow)); }

std::byte* encode(const FlowCommand& flow, std::byte* to) {
  to = put_frame_head(to, BaseCommand::FLOW, body_size(flow), 0);
  to = put_varint_field(to, 1, flow.consumer_id);
  return put_varint_field(to, 2, flow.permits);
}

std::size_t encoded_size(const AckRequest& ack) { return hot_frame_size(body_size(ack)); }

std::byte* encode(const AckRequest& ack, std::byte* to) {
  to = put_frame_head(to, BaseCommand::ACK, body_size(ack), 0);
  to = put_varint_field(to, 1, ack.consumer_id);
  to = put_varint_field(to, 2, ack.cumulative ? 1 : 0);
  for (const Position& id : ack.ids) {
    to = put_position(put_bytes_head(to, 3, position_size(id)), id);
  }
  return to;
}

std::optional<SendReceipt> decode_send_receipt(CommandBytes command) {
  const auto body = body_of(command, BaseCommand::SEND_RECEIPT);
  if (!body) return std::nullopt;
  SendReceipt receipt;
  unsigned seen = 0;
  FieldReader fields(*body);
  while (fields.next()) {
    switch (fields.tag()) {
      case varint_tag(1):
        receipt.producer_id = fields.value();
        seen |= 1;
        break;
      case varint_tag(2):
        receipt.sequence_id = fields.signed_value();
        seen |= 2;
        break;
      case bytes_tag(3): {
        const auto id = parse_position(fields.bytes(), nullptr);
        if (!id) return std::nullopt;
        receipt.message_id = *id;
        break;
      }
      case varint_tag(4): receipt.highest_sequence_id = fields.signed_value(); break;
      default: break;
    }
  }
  if (!fields.ok() || seen != 3) return std::nullopt;
  return receipt;
}

std::optional<SendError> decode_send_error(CommandBytes command) {
  const auto body = body_of(command, BaseCommand::SEND_ERROR);
  if (!body) return std::nullopt;
  SendError error;
  unsigned seen = 0;
  FieldReader fields(*body);
  while (fields.next()) {
    switch (fields.tag()) {
      case varint_tag(1):
        error.producer_id = fields.value();
        seen |= 1;
        break;
      case varint_tag(2):
        error.sequence_id = fields.signed_value();
        seen |= 2;
        break;
      case varint_tag(3):
        error.error = fields.int32();
        seen |= 4;
        break;
      case bytes_tag(4): error.message = fields.bytes(); break;
      default: break;
    }
  }
  if (!fields.ok() || seen != 7) return std::nullopt;
  return error;
}

std::optional<MessageCommand> decode_message(CommandBytes command) {
  const auto body = body_of(command, BaseCommand::MESSAGE);
  if (!body) return std::nullopt;
  MessageCommand message;
  message.command = command;
  unsigned seen = 0;
  FieldReader fields(*body);
  while (fields.next()) {
    switch (fields.tag()) {
      case varint_tag(1):
        message.consumer_id = fields.value();
        seen |= 1;
        break;
      case bytes_tag(2): {
        const auto id = parse_position(fields.bytes(), &message.partition);
        if (!id) return std::nullopt;
        message.message_id = *id;
        seen |= 2;
        break;
      }
      case varint_tag(3):
        message.redelivery_count = static_cast<std::uint32_t>(fields.value());
        break;
      case varint_tag(4):
      case bytes_tag(4): message.has_ack_set = true; break;
      default: break;
    }
  }
  if (!fields.ok() || seen != 3) return std::nullopt;
  return message;
}

bool ack_set_bit(const MessageCommand& message, std::uint32_t index) {
  const auto body = body_of(message.command, BaseCommand::MESSAGE);
  if (!body) return false;
  std::uint32_t word = 0;
  FieldReader fields(*body);
  while (fields.next()) {
    if (fields.tag() != varint_tag(4)) continue;
    if (word++ == index / 64) return (fields.value() >> (index % 64) & 1) != 0;
  }
  return false;  // trailing zero words are left out
}

}  // namespace geminga
