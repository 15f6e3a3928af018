// Commands: bytes to values and back.
//
// The commands that pass once a message have codecs of their own that allocate nothing: the
// decoders take the `command` part of a Frame, the encoders write a whole frame (for MESSAGE: all
// of it but the entry that follows) into memory of encoded_size() bytes. All others go through
// pulsar::proto::BaseCommand. A decoder answers "no" when the bytes are malformed, a required field
// is missing or the type is another; the connection is then closed. Ids are signed where Pulsar
// writes -1 as the largest unsigned number. Values; any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/position.h"
#include "base/status.h"

namespace pulsar::proto {
class BaseCommand;
}

namespace geminga {

using CommandBytes = std::span<const std::byte>;

// BaseCommand.type (compare with pulsar::proto::BaseCommand::SEND and its like), 0 if there is
// none.
int peek_command_type(CommandBytes command);

struct TxnId {
  std::uint64_t most_bits = 0;
  std::uint64_t least_bits = 0;
  friend auto operator<=>(const TxnId&, const TxnId&) = default;
  // "(0,2)", as Pulsar prints it.
  std::string to_string() const {
    return "(" + std::to_string(most_bits) + "," + std::to_string(least_bits) + ")";
  }
};

struct SendCommand {
  std::uint64_t producer_id = 0;
  std::int64_t sequence_id = 0;
  std::int32_t num_messages = 1;
  std::optional<std::int64_t> highest_sequence_id;
  bool is_chunk = false;
  bool marker = false;
  std::optional<TxnId> txn;
  std::optional<Position> message_id;  // shadow topics
};
std::optional<SendCommand> decode_send(CommandBytes command);

struct FlowCommand {
  std::uint64_t consumer_id = 0;
  std::uint32_t permits = 0;
};
std::optional<FlowCommand> decode_flow(CommandBytes command);

// An ACK. Kept and filled again by its user, so that the vectors allocate only while they grow; the
// strings are views into the frame.
struct AckCommand {
  struct Id {
    Position position;
    std::int32_t partition = -1;
    std::int32_t batch_index = -1;
    std::int32_t batch_size = 0;  // 0: not given
    std::uint32_t first_word = 0;
    std::uint32_t words = 0;
  };
  std::uint64_t consumer_id = 0;
  bool cumulative = false;
  std::vector<Id> ids;
  std::optional<int> validation_error;
  std::optional<TxnId> txn;
  std::optional<std::uint64_t> request_id;
  std::vector<std::pair<std::string_view, std::int64_t>> properties;
  std::vector<std::uint64_t> ack_words;

  // Bit i set: message i of the batch is still to be acked. Trailing zero words may be missing.
  // Empty: the whole entry is acked.
  std::span<const std::uint64_t> ack_set(const Id& id) const {
    return std::span(ack_words).subspan(id.first_word, id.words);
  }
};
bool decode_ack(CommandBytes command, AckCommand& out);

struct SendReceipt {
  std::uint64_t producer_id = 0;
  std::int64_t sequence_id = 0;
  Position message_id;
  std::int64_t highest_sequence_id = -1;  // that of the SEND; -1 if it had none
};
std::size_t encoded_size(const SendReceipt& receipt);
// Writes encoded_size() bytes; gives back the byte behind them. So do all encode() functions.
std::byte* encode(const SendReceipt& receipt, std::byte* to);

struct SendError {
  std::uint64_t producer_id = 0;
  std::int64_t sequence_id = 0;
  int error = 0;  // pulsar::proto::ServerError
  std::string_view message;
};
std::size_t encoded_size(const SendError& error);
std::byte* encode(const SendError& error, std::byte* to);

// The frame of a MESSAGE up to its entry; `entry_size` bytes (headers, metadata, payload) must
// follow.
struct MessageHeader {
  std::uint64_t consumer_id = 0;
  Position message_id;
  std::int32_t partition = -1;
  std::uint32_t redelivery_count = 0;
  std::span<const std::uint64_t> ack_set;
  std::optional<std::int64_t> consumer_epoch;
  std::size_t entry_size = 0;
};
std::size_t encoded_size(const MessageHeader& header);
std::byte* encode(const MessageHeader& header, std::byte* to);

// Any command, as the generated class. Fails with Protocol if a required field or the body that the
// type names is missing.
Result<pulsar::proto::BaseCommand> parse_command(CommandBytes command);
// The request id of a well-formed command whose type no version known here has: by the protocol's
// habit it is field 1 of the body, and the body's field number is the type. Empty if the type is
// known or there is none.
std::optional<std::uint64_t> request_of_unknown_command(CommandBytes command);
// A whole frame without a rest.
Buffer encode_command(const pulsar::proto::BaseCommand& command);

}  // namespace geminga
