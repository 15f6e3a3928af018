// Where an entry is: (ledger id, entry id), as in Pulsar message ids. Entry -1 means "before the
// first entry of that ledger". Values, ordered by ledger, then entry.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace geminga {

using LedgerId = std::int64_t;
using EntryId = std::int64_t;

struct Position {
  LedgerId ledger = -1;
  EntryId entry = -1;

  friend auto operator<=>(const Position&, const Position&) = default;
  std::string to_string() const { return std::to_string(ledger) + ":" + std::to_string(entry); }

  // The ids with which Pulsar's clients ask for the first and for the next message.
  static constexpr Position earliest() { return {-1, -1}; }
  static constexpr Position latest() {
    return {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()};
  }
};

}  // namespace geminga

template <>
struct std::hash<geminga::Position> {
  std::size_t operator()(const geminga::Position& p) const noexcept {
    return static_cast<std::size_t>(p.ledger) * 0x9E3779B97F4A7C15ULL ^
           static_cast<std::size_t>(p.entry) * 0xC2B2AE3D27D4EB4FULL;
  }
};
