#include "wire/frame.h"

#include <fmt/format.h>

#include "base/endian.h"

namespace geminga {

namespace {

NextFrame need(std::size_t bytes) {
  NextFrame next;
  next.needed = bytes;
  return next;
}

NextFrame bad(std::string message) {
  NextFrame next;
  next.state = NextFrame::State::Bad;
  next.error = Status::Protocol(std::move(message));
  return next;
}

}  // namespace

NextFrame next_frame(std::span<const std::byte> bytes, std::size_t max_size) {
  if (bytes.size() < 4) return need(8);
  const std::size_t total = load_be32(bytes.data());
  if (total + 4 > max_size) {
    return bad(fmt::format("frame of {} bytes is over the limit of {}", total + 4, max_size));
  }
  if (total < 4) return bad(fmt::format("frame length {} leaves no room for a command", total));
  if (bytes.size() < 8) return need(total + 4);
  const std::size_t command = load_be32(bytes.data() + 4);
  if (command == 0 || command > total - 4) {
    return bad(fmt::format("command of {} bytes in a frame of {}", command, total));
  }
  if (bytes.size() < total + 4) return need(total + 4);
  NextFrame next;
  next.state = NextFrame::State::Ready;
  next.frame.command = bytes.subspan(8, command);
  next.frame.rest = bytes.subspan(8 + command, total - 4 - command);
  next.frame.size = total + 4;
  return next;
}

}  // namespace geminga
