#include "base/siphash.h"

#include <bit>
#include <random>

#include "base/endian.h"

namespace geminga {

namespace {

struct State {
  std::uint64_t v0, v1, v2, v3;

  void rounds(int n) {
    for (; n > 0; --n) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
  std::uint64_t fold() const { return v0 ^ v1 ^ v2 ^ v3; }
};

}  // namespace

Hash128 siphash128(const SipKey& key, std::span<const std::byte> bytes) {
  State state{key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL ^ 0xee,
              key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL};
  const std::size_t whole = bytes.size() & ~std::size_t{7};
  for (std::size_t i = 0; i < whole; i += 8) {
    state.take(load_le64(reinterpret_cast<const std::uint8_t*>(bytes.data() + i)));
  }
  std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56;
  for (std::size_t i = whole; i < bytes.size(); ++i) {
    last |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * (i - whole));
  }
  state.take(last);
  state.v2 ^= 0xee;
  state.rounds(4);
  Hash128 hash;
  hash.low = state.fold();
  state.v1 ^= 0xdd;
  state.rounds(4);
  hash.high = state.fold();
  return hash;
}

SipKey random_sip_key() {
  std::random_device random;
  const auto word = [&random] {
    return static_cast<std::uint64_t>(random()) << 32 | static_cast<std::uint64_t>(random());
  };
  return {word(), word()};
}

}  // namespace geminga
