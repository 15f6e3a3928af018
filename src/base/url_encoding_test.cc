#include "base/url_encoding.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

// The first pair was seen on a real broker (reference bk/pulsar-metadata.md, section 3).
TEST(UrlEncoding, EncodesAsJavaDoes) {
  EXPECT_EQ(url_encode("a b+c%dü:*e~()-_."), "a+b%2Bc%25d%C3%BC%3A*e%7E%28%29-_.");
  EXPECT_EQ(url_encode("sub é/1"), "sub+%C3%A9%2F1");
}

TEST(UrlEncoding, DecodesBack) {
  for (const char* text : {"", "plain", "a b+c%dü:*e~()-_.", "sub é/1"}) {
    EXPECT_EQ(url_decode(url_encode(text)).value(), text);
  }
  EXPECT_EQ(url_decode("a%20b%2f").value(), "a b/");
}

TEST(UrlEncoding, RefusesBrokenEscapes) {
  for (const char* text : {"%", "%a", "%zz", "abc%1"}) {
    EXPECT_TRUE(url_decode(text).is(ErrorCode::InvalidArgument)) << text;
  }
}

}  // namespace
}  // namespace geminga
