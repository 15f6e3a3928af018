#include "wire/command.h"

#include <fmt/format.h>

#include "PulsarApi.pb.h"
#include "wire/frame_head.h"
#include "wire/protobuf_fields.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;

bool has_field(CommandBytes command, std::uint32_t tag) {
  FieldReader fields(command);
  while (fields.next()) {
    if (fields.tag() == tag) return true;
  }
  return false;
}

bool parse_id(std::string_view bytes, AckCommand& out) {
  AckCommand::Id id;
  id.first_word = static_cast<std::uint32_t>(out.ack_words.size());
  bool has_ledger = false;
  bool has_entry = false;
  FieldReader fields(bytes);
  while (fields.next()) {
    switch (fields.tag()) {
      case varint_tag(1):
        id.position.ledger = fields.signed_value();
        has_ledger = true;
        break;
      case varint_tag(2):
        id.position.entry = fields.signed_value();
        has_entry = true;
        break;
      case varint_tag(3): id.partition = fields.int32(); break;
      case varint_tag(4): id.batch_index = fields.int32(); break;
      case varint_tag(5): out.ack_words.push_back(fields.value()); break;
      case bytes_tag(5): {  // packed
        // Each value gets a tag of its own in front by walking byte-wise: a packed run is varints
        // only.
        std::uint64_t word = 0;
        unsigned shift = 0;
        for (const char c : fields.bytes()) {
          const auto byte = static_cast<std::uint8_t>(c);
          if (shift >= 70) return false;
          word |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
          shift += 7;
          if (byte < 0x80) {
            out.ack_words.push_back(word);
            word = 0;
            shift = 0;
          }
        }
        if (shift != 0) return false;
        break;
      }
      case varint_tag(6): id.batch_size = fields.int32(); break;
      default: break;
    }
  }
  if (!fields.ok() || !has_ledger || !has_entry) return false;
  id.words = static_cast<std::uint32_t>(out.ack_words.size()) - id.first_word;
  out.ids.push_back(id);
  return true;
}

std::optional<Position> parse_position(std::string_view bytes) {
  Position position;
  bool has_ledger = false;
  bool has_entry = false;
  FieldReader fields(bytes);
  while (fields.next()) {
    if (fields.tag() == varint_tag(1)) {
      position.ledger = fields.signed_value();
      has_ledger = true;
    } else if (fields.tag() == varint_tag(2)) {
      position.entry = fields.signed_value();
      has_entry = true;
    }
  }
  if (!fields.ok() || !has_ledger || !has_entry) return std::nullopt;
  return position;
}

bool parse_property(std::string_view bytes, AckCommand& out) {
  std::optional<std::string_view> key;
  std::optional<std::int64_t> value;
  FieldReader fields(bytes);
  while (fields.next()) {
    if (fields.tag() == bytes_tag(1)) key = fields.bytes();
    if (fields.tag() == varint_tag(2)) value = fields.signed_value();
  }
  if (!fields.ok() || !key || !value) return false;
  out.properties.emplace_back(*key, *value);
  return true;
}

std::size_t body_size(const SendReceipt& receipt) {
  return varint_field_size(receipt.producer_id) +
         varint_field_size(static_cast<std::uint64_t>(receipt.sequence_id)) +
         bytes_field_size(position_size(receipt.message_id)) +
         varint_field_size(static_cast<std::uint64_t>(receipt.highest_sequence_id));
}

std::size_t body_size(const SendError& error) {
  return varint_field_size(error.producer_id) +
         varint_field_size(static_cast<std::uint64_t>(error.sequence_id)) +
         varint_field_size(static_cast<std::uint64_t>(error.error)) +
         bytes_field_size(error.message.size());
}

std::size_t message_id_size(const MessageHeader& header) {
  return position_size(header.message_id) +
         varint_field_size(static_cast<std::uint64_t>(std::int64_t{header.partition}));
}

std::size_t body_size(const MessageHeader& header) {
  std::size_t size =
      varint_field_size(header.consumer_id) + bytes_field_size(message_id_size(header));
  if (header.redelivery_count > 0) size += varint_field_size(header.redelivery_count);
  for (const std::uint64_t word : header.ack_set) size += varint_field_size(word);
  if (header.consumer_epoch) {
    size += varint_field_size(static_cast<std::uint64_t>(*header.consumer_epoch));
  }
  return size;
}

}  // namespace

int peek_command_type(CommandBytes command) {
  int type = 0;
  FieldReader fields(command);
  while (fields.next()) {
    if (fields.tag() == varint_tag(1)) type = fields.int32();
  }
  return fields.ok() ? type : 0;
}

std::optional<SendCommand> decode_send(CommandBytes command) {
  const auto body = body_of(command, BaseCommand::SEND);
  if (!body) return std::nullopt;
  SendCommand send;
  bool has_producer = false;
  bool has_sequence = false;
  TxnId txn;
  unsigned txn_halves = 0;
  FieldReader fields(*body);
  while (fields.next()) {
    switch (fields.tag()) {
      case varint_tag(1):
        send.producer_id = fields.value();
        has_producer = true;
        break;
      case varint_tag(2):
        send.sequence_id = fields.signed_value();
        has_sequence = true;
        break;
      case varint_tag(3): send.num_messages = fields.int32(); break;
      case varint_tag(4):
        txn.least_bits = fields.value();
        txn_halves |= 1;
        break;
      case varint_tag(5):
        txn.most_bits = fields.value();
        txn_halves |= 2;
        break;
      case varint_tag(6): send.highest_sequence_id = fields.signed_value(); break;
      case varint_tag(7): send.is_chunk = fields.boolean(); break;
      case varint_tag(8): send.marker = fields.boolean(); break;
      case bytes_tag(9):
        send.message_id = parse_position(fields.bytes());
        if (!send.message_id) return std::nullopt;
        break;
      default: break;
    }
  }
  if (!fields.ok() || !has_producer || !has_sequence) return std::nullopt;
  if (txn_halves == 3) send.txn = txn;
  return send;
}

std::optional<FlowCommand> decode_flow(CommandBytes command) {
  const auto body = body_of(command, BaseCommand::FLOW);
  if (!body) return std::nullopt;
  FlowCommand flow;
  bool has_consumer = false;
  bool has_permits = false;
  FieldReader fields(*body);
  while (fields.next()) {
    if (fields.tag() == varint_tag(1)) {
      flow.consumer_id = fields.value();
      has_consumer = true;
    } else if (fields.tag() == varint_tag(2)) {
      flow.permits = static_cast<std::uint32_t>(fields.value());
      has_permits = true;
    }
  }
  if (!fields.ok() || !has_consumer || !has_permits) return std::nullopt;
  return flow;
}

bool decode_ack(CommandBytes command, AckCommand& out) {
  out.ids.clear();
  out.ack_words.clear();
  out.properties.clear();
  out.validation_error.reset();
  out.txn.reset();
  out.request_id.reset();
  const auto body = body_of(command, BaseCommand::ACK);
  if (!body) return false;
  bool has_consumer = false;
  bool has_type = false;
  TxnId txn;
  unsigned txn_halves = 0;
  FieldReader fields(*body);
  while (fields.next()) {
    switch (fields.tag()) {
      case varint_tag(1):
        out.consumer_id = fields.value();
        has_consumer = true;
        break;
      case varint_tag(2):
        if (fields.value() > 1) return false;
        out.cumulative = fields.value() == 1;
        has_type = true;
        break;
      case bytes_tag(3):
        if (!parse_id(fields.bytes(), out)) return false;
        break;
      case varint_tag(4): out.validation_error = fields.int32(); break;
      case bytes_tag(5):
        if (!parse_property(fields.bytes(), out)) return false;
        break;
      case varint_tag(6):
        txn.least_bits = fields.value();
        txn_halves |= 1;
        break;
      case varint_tag(7):
        txn.most_bits = fields.value();
        txn_halves |= 2;
        break;
      case varint_tag(8): out.request_id = fields.value(); break;
      default: break;
    }
  }
  if (txn_halves == 3) out.txn = txn;
  return fields.ok() && has_consumer && has_type;
}

std::size_t encoded_size(const SendReceipt& receipt) { return hot_frame_size(body_size(receipt)); }

std::byte* encode(const SendReceipt& receipt, std::byte* to) {
  to = put_frame_head(to, BaseCommand::SEND_RECEIPT, body_size(receipt), 0);
  to = put_varint_field(to, 1, receipt.producer_id);
  to = put_varint_field(to, 2, static_cast<std::uint64_t>(receipt.sequence_id));
  to = put_bytes_head(to, 3, position_size(receipt.message_id));
  to = put_position(to, receipt.message_id);
  return put_varint_field(to, 4, static_cast<std::uint64_t>(receipt.highest_sequence_id));
}

std::size_t encoded_size(const SendError& error) { return hot_frame_size(body_size(error)); }

std::byte* encode(const SendError& error, std::byte* to) {
  to = put_frame_head(to, BaseCommand::SEND_ERROR, body_size(error), 0);
  to = put_varint_field(to, 1, error.producer_id);
  to = put_varint_field(to, 2, static_cast<std::uint64_t>(error.sequence_id));
  to = put_varint_field(to, 3, static_cast<std::uint64_t>(error.error));
  return put_raw(put_bytes_head(to, 4, error.message.size()), error.message);
}

std::size_t encoded_size(const MessageHeader& header) { return hot_frame_size(body_size(header)); }

std::byte* encode(const MessageHeader& header, std::byte* to) {
  to = put_frame_head(to, BaseCommand::MESSAGE, body_size(header), header.entry_size);
  to = put_varint_field(to, 1, header.consumer_id);
  to = put_bytes_head(to, 2, message_id_size(header));
  to = put_position(to, header.message_id);
  to = put_varint_field(to, 3, static_cast<std::uint64_t>(std::int64_t{header.partition}));
  if (header.redelivery_count > 0) to = put_varint_field(to, 3, header.redelivery_count);
  for (const std::uint64_t word : header.ack_set) to = put_varint_field(to, 4, word);
  if (header.consumer_epoch) {
    to = put_varint_field(to, 5, static_cast<std::uint64_t>(*header.consumer_epoch));
  }
  return to;
}

Result<BaseCommand> parse_command(CommandBytes command) {
  BaseCommand parsed;
  if (!parsed.ParsePartialFromArray(command.data(), static_cast<int>(command.size()))) {
    return Status::Protocol(
        fmt::format("command of {} bytes is not a BaseCommand", command.size()));
  }
  if (!parsed.has_type()) {
    return Status::Protocol("command without a known type: number " +
                            std::to_string(peek_command_type(command)));
  }
  if (!parsed.IsInitialized()) {
    return Status::Protocol(
        fmt::format("{} lacks required fields", BaseCommand::Type_Name(parsed.type())));
  }
  const bool needs_body = parsed.type() != BaseCommand::PING && parsed.type() != BaseCommand::PONG;
  if (needs_body && !has_field(command, bytes_tag(static_cast<std::uint32_t>(parsed.type())))) {
    return Status::Protocol(
        fmt::format("{} without its body", BaseCommand::Type_Name(parsed.type())));
  }
  return parsed;
}

std::optional<std::uint64_t> request_of_unknown_command(CommandBytes command) {
  const int type = peek_command_type(command);
  if (type <= 0 || BaseCommand::Type_IsValid(type)) return std::nullopt;
  FieldReader fields(command);
  while (fields.next()) {
    if (fields.tag() != bytes_tag(static_cast<std::uint32_t>(type))) continue;
    FieldReader body(fields.bytes());
    if (body.next() && body.tag() == varint_tag(1)) return body.value();
  }
  return std::nullopt;
}

Buffer encode_command(const BaseCommand& command) {
  const std::size_t size = command.ByteSizeLong();
  Block* block = Block::allocate(8 + size);
  store_be32(block->data(), static_cast<std::uint32_t>(4 + size));
  store_be32(block->data() + 4, static_cast<std::uint32_t>(size));
  command.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(block->data() + 8));
  return Buffer::adopt(block, 0, 8 + size);
}

}  // namespace geminga
