#include "wire/frame.h"

#include <gtest/gtest.h>

#include "wire/wire_test_support.h"

namespace geminga {
namespace {

constexpr std::size_t kMax = max_frame_size(kDefaultMaxMessageSize);
using State = NextFrame::State;

TEST(Frame, CommandWithoutRest) {
  const std::string bytes = from_hex("00000009 00000005 0813 9a0100 ffff");
  const NextFrame next = next_frame(as_span(bytes), kMax);
  ASSERT_EQ(next.state, State::Ready);
  EXPECT_EQ(next.frame.size, 13U);
  EXPECT_EQ(to_hex(next.frame.command), "08139a0100");
  EXPECT_TRUE(next.frame.rest.empty());
}

TEST(Frame, CommandWithRest) {
  const std::string bytes = from_hex("00000009 00000002 0806 aabbcc");
  const NextFrame next = next_frame(as_span(bytes), kMax);
  ASSERT_EQ(next.state, State::Ready);
  EXPECT_EQ(to_hex(next.frame.command), "0806");
  EXPECT_EQ(to_hex(next.frame.rest), "aabbcc");
}

TEST(Frame, AByteAtATime) {
  const std::string stream = from_hex("00000009 00000005 0813 9a0100 0000000600000002 0806");
  std::string buffer;
  int frames = 0;
  for (const char byte : stream) {
    buffer.push_back(byte);
    const NextFrame next = next_frame(as_span(buffer), kMax);
    ASSERT_NE(next.state, State::Bad);
    if (next.state == State::NeedMore) {
      EXPECT_GT(next.needed, buffer.size());
      continue;
    }
    ++frames;
    EXPECT_EQ(next.frame.size, buffer.size());
    buffer.clear();
  }
  EXPECT_EQ(frames, 2);
  EXPECT_TRUE(buffer.empty());
}

TEST(Frame, TheLargestFrameIsTakenAndOneByteMoreIsRefusedFromItsLength) {
  std::string bytes(4, '\0');
  store_be32(bytes.data(), static_cast<std::uint32_t>(kMax - 4));
  EXPECT_EQ(next_frame(as_span(bytes), kMax).state, State::NeedMore);
  store_be32(bytes.data(), static_cast<std::uint32_t>(kMax - 3));
  const NextFrame next = next_frame(as_span(bytes), kMax);
  EXPECT_EQ(next.state, State::Bad);
  EXPECT_NE(next.error.message().find("5253121"), std::string::npos) << next.error.message();
}

TEST(Frame, TheLargestLengthDoesNotOverflow) {
  EXPECT_EQ(next_frame(as_span(from_hex("ffffffff")), kMax).state, State::Bad);
  EXPECT_EQ(next_frame(as_span(from_hex("fffffffc00000000")), kMax).state, State::Bad);
}

TEST(Frame, CommandSizesOutOfBoundsAreRefusedBeforeTheBody) {
  EXPECT_EQ(next_frame(as_span(from_hex("00000003")), kMax).state, State::Bad);
  EXPECT_EQ(next_frame(as_span(from_hex("00000000")), kMax).state, State::Bad);
  EXPECT_EQ(next_frame(as_span(from_hex("00001000 00000000")), kMax).state, State::Bad);
  EXPECT_EQ(next_frame(as_span(from_hex("00001000 00000ffd")), kMax).state, State::Bad);
  EXPECT_EQ(next_frame(as_span(from_hex("00001000 00000ffc")), kMax).state, State::NeedMore);
  EXPECT_EQ(next_frame(as_span(from_hex("00001000 ffffffff")), kMax).state, State::Bad);
}

}  // namespace
}  // namespace geminga
