// SipHash-2-4 with 128 bits of output: a hash that nobody who does not know the key can make
// collide. For tables that keep the hash of a text from outside in place of the text. Pure; any
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace geminga {

using SipKey = std::array<std::uint64_t, 2>;

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

Hash128 siphash128(const SipKey& key, std::span<const std::byte> bytes);
inline Hash128 siphash128(const SipKey& key, std::string_view text) {
  return siphash128(key, std::as_bytes(std::span(text)));
}
// A key from the system's source of randomness.
SipKey random_sip_key();

}  // namespace geminga
