// The other side of command.h: what a client writes and reads once a message. Same rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/position.h"
#include "wire/command.h"

namespace geminga {

// The frame of a SEND up to its entry; `entry_size` bytes must follow.
struct SendHeader {
  std::uint64_t producer_id = 0;
  std::int64_t sequence_id = 0;
  std::int32_t num_messages = 1;
  std::optional<std::int64_t> highest_sequence_id;
  std::size_t entry_size = 0;
};
std::size_t encoded_size(const SendHeader& header);
std::byte* encode(const SendHeader& header, std::byte* to);

std::size_t encoded_size(const FlowCommand& flow);
std::byte* encode(const FlowCommand& flow, std::byte* to);

// Whole entries. Cumulative: one id.
struct AckRequest {
  std::uint64_t consumer_id = 0;
  bool cumulative = false;
  std::span<const Position> ids;
};
std::size_t encoded_size(const AckRequest& ack);
std::byte* encode(const AckRequest& ack, std::byte* to);

std::optional<SendReceipt> decode_send_receipt(CommandBytes command);
// `message` is a view into the command.
std::optional<SendError> decode_send_error(CommandBytes command);

struct MessageCommand {
  std::uint64_t consumer_id = 0;
  Position message_id;
  std::int32_t partition = -1;
  std::uint32_t redelivery_count = 0;
  bool has_ack_set = false;  // some messages of the batch were acked before: see ack_set_bit()
  CommandBytes command;
};
std::optional<MessageCommand> decode_message(CommandBytes command);
// Whether message `index` of the batch is still to be delivered. Walks the command; for the rare
// has_ack_set.
bool ack_set_bit(const MessageCommand& message, std::uint32_t index);

}  // namespace geminga
