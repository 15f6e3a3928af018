// Cutting a byte stream into frames.
//
//   BE32 total size (of what follows) | BE32 command size | command (protobuf BaseCommand) | rest
//
// `rest` is empty but for SEND and MESSAGE, where it is one entry (see message_metadata.h).
// next_frame() looks at the start of what was received and takes nothing: the caller drops
// frame.size bytes when it is done with the views. A length that is out of bounds is refused as
// soon as its four bytes are there, before anything is kept for the body; after that the stream
// cannot be trusted any more and the connection must be closed. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace geminga {

inline constexpr std::size_t kDefaultMaxMessageSize = 5 * 1024 * 1024;
// What a frame may have over the largest message: command, metadata, headers.
inline constexpr std::size_t kFrameOverhead = 10 * 1024;
constexpr std::size_t max_frame_size(std::size_t max_message_size) {
  return max_message_size + kFrameOverhead;
}

struct Frame {
  std::span<const std::byte> command;
  std::span<const std::byte> rest;
  std::size_t size = 0;  // of the whole frame in the stream, its first length included
};

struct NextFrame {
  enum class State : std::uint8_t { NeedMore, Ready, Bad };
  State state = State::NeedMore;
  Frame frame;  // Ready
  std::size_t needed =
      0;         // NeedMore: how long the stream's buffer must be at least before asking again
  Status error;  // Bad
};

// `bytes` starts at a frame. `max_size` bounds the whole frame, its first length included.
NextFrame next_frame(std::span<const std::byte> bytes, std::size_t max_size);

}  // namespace geminga
