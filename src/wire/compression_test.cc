#include "wire/compression.h"

#include <gtest/gtest.h>

#include <random>

#include "wire/topics_hash.h"
#include "wire/wire_test_support.h"

namespace geminga {
namespace {

class EveryCodec : public testing::TestWithParam<Codec> {};

TEST_P(EveryCodec, BothWays) {
  std::mt19937 random(1);
  std::string noise(100000, '\0');
  for (auto& c : noise) c = static_cast<char>(random());
  for (const std::string& text :
       {std::string(), std::string("a"), std::string(100000, 'x'), noise}) {
    const auto packed = compress(GetParam(), as_span(text));
    ASSERT_TRUE(packed) << packed.status().to_string();
    const auto back = decompress(GetParam(), packed->span(), text.size(), 1 << 20);
    ASSERT_TRUE(back) << text.size() << ": " << back.status().to_string();
    EXPECT_EQ(back->view(), text);
  }
}

TEST_P(EveryCodec, TheSizeMustBeWhatTheMetadataSays) {
  const std::string text(1000, 'x');
  const auto packed = compress(GetParam(), as_span(text));
  ASSERT_TRUE(packed);
  EXPECT_TRUE(decompress(GetParam(), packed->span(), 999, 1 << 20).is(ErrorCode::Corruption));
  EXPECT_TRUE(decompress(GetParam(), packed->span(), 1001, 1 << 20).is(ErrorCode::Corruption));
  EXPECT_TRUE(decompress(GetParam(), packed->span(), 1000, 999).is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(decompress(GetParam(), packed->span(), std::size_t{1} << 60, 5 << 20)
                  .is(ErrorCode::InvalidArgument));
}

TEST_P(EveryCodec, DamagedBytesNeverHarm) {
  const auto packed = compress(GetParam(), as_span(std::string(3000, 'x') + "tail"));
  ASSERT_TRUE(packed);
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(packed->view());
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    (void)decompress(GetParam(), as_span(bytes), 3004, 1 << 20);
    (void)decompress(GetParam(), as_span(bytes.substr(0, random() % bytes.size())), 3004, 1 << 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodec,
                         testing::Values(Codec::None, Codec::Lz4, Codec::Zlib, Codec::Zstd,
                                         Codec::Snappy));

TEST(Compression, ZlibStreamThatTheJavaClientLeavesOpen) {
  const auto text =
      decompress(Codec::Zlib, as_span(from_hex("789c4a4c240e00000000ffff")), 40, 1000);
  ASSERT_TRUE(text) << text.status().to_string();
  EXPECT_EQ(text->view(), std::string(40, 'a'));
}

TEST(Compression, UnknownCodec) {
  EXPECT_TRUE(decompress(static_cast<Codec>(9), {}, 1, 10).is(ErrorCode::Unsupported));
  EXPECT_TRUE(compress(static_cast<Codec>(9), {}).is(ErrorCode::Unsupported));
}

TEST(TopicsHash, Vectors) {
  EXPECT_EQ(topics_hash({}), "00000000");
  EXPECT_EQ(topics_hash({"persistent://public/default/a"}), "e4a876e3");
  EXPECT_EQ(topics_hash({"persistent://public/default/b", "persistent://public/default/a"}),
            "c7559e98");
}

}  // namespace
}  // namespace geminga
