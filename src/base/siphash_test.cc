#include "base/siphash.h"

#include <gtest/gtest.h>

#include <vector>

namespace geminga {
namespace {

// Vectors of the reference implementation: key 00..0f, input 00, 00 01, ... .
TEST(SipHash, GivesTheReferenceValues) {
  const SipKey key{0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
  std::vector<std::byte> input;
  EXPECT_EQ(siphash128(key, input), (Hash128{0xe6a825ba047f81a3ULL, 0x930255c71472f66dULL}));
  input.push_back(std::byte{0});
  EXPECT_EQ(siphash128(key, input), (Hash128{0x44af996bd8c187daULL, 0x45fc229b11597634ULL}));
  for (int i = 1; i < 8; ++i) input.push_back(static_cast<std::byte>(i));
  EXPECT_NE(siphash128(key, input), siphash128({0, 0}, input));
}

TEST(SipHash, KeysAreNotAlike) { EXPECT_NE(random_sip_key(), random_sip_key()); }

}  // namespace
}  // namespace geminga
