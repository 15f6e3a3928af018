#include "base/buffer.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/status.h"
#include "base/unique_function.h"

namespace geminga {
namespace {

TEST(Buffer, SharesItsBlockAndFreesItWithTheLastUser) {
  static int released = 0;
  Block* block = Block::allocate(64, 4096, [](Block* b, void*) {
    ++released;
    Block::destroy(b);
  });
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % 4096, 0U);
  std::memcpy(block->data(), "hello world", 11);
  Buffer whole = Buffer::adopt(block, 0, 11);
  Buffer world = whole.slice(6);
  EXPECT_EQ(world.view(), "world");
  EXPECT_FALSE(block->unique());
  whole = Buffer();
  EXPECT_EQ(released, 0);
  Buffer copy = world;
  world = std::move(copy);
  EXPECT_EQ(world.view(), "world");
  world = Buffer();
  EXPECT_EQ(released, 1);
}

TEST(Buffer, CopiesAndStaticBytes) {
  EXPECT_EQ(Buffer::copy_of("abc").view(), "abc");
  EXPECT_TRUE(Buffer::copy_of("").empty());
  EXPECT_EQ(Buffer::of_static("literal").slice(3, 2).view(), "er");
}

TEST(Crc32c, KnownVectors) {
  const auto crc = [](std::string_view text) { return crc32c(std::as_bytes(std::span(text))); };
  EXPECT_EQ(crc(""), 0U);
  EXPECT_EQ(crc("123456789"), 0xE3069283U);
  const std::string_view text = "123456789";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(crc32c_extend(crc32c(bytes.first(4)), bytes.subspan(4)), 0xE3069283U);
}

TEST(Status, NamesTheRowOfTheTable) {
  const Status status = Status::TopicNotFound("persistent://a/b/c does not exist");
  EXPECT_EQ(status.to_string(), "TopicNotFound: persistent://a/b/c does not exist");
  EXPECT_EQ(error_info(status.code()).wire_code, 11);
  EXPECT_EQ(error_info(status.code()).http_status, 404);
  EXPECT_EQ(status.with_context("lookup").message(), "lookup: persistent://a/b/c does not exist");
  EXPECT_TRUE(Status::ok().with_context("x").is_ok());
}

TEST(UniqueFunction, HoldsWhatMovesAndDestroysItOnce) {
  auto token = std::make_shared<int>(7);
  UniqueFunction<int(int)> small = [owned = std::make_unique<int>(1)](int add) {
    return *owned + add;
  };
  EXPECT_EQ(small(2), 3);
  struct Large {
    std::shared_ptr<int> token;
    char bytes[100];
  };
  UniqueFunction<int()> large = [held = Large{token, {}}] { return *held.token; };
  UniqueFunction<int()> moved = std::move(large);
  EXPECT_FALSE(large);
  EXPECT_EQ(moved(), 7);
  EXPECT_EQ(token.use_count(), 2);
  moved = nullptr;
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace geminga
