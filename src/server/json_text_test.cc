#include "server/json_text.h"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <limits>

namespace geminga {
namespace {

TEST(JsonText, DoublesKeepTheirPoint) {
  boost::json::object o;
  o["rate"] = 0.0;
  o["count"] = 3;
  o["mean"] = 59.5;
  o["large"] = 1e300;
  EXPECT_EQ(to_json(o), R"({"rate":0.0,"count":3,"mean":59.5,"large":1e+300})");
  EXPECT_EQ(to_json(100000.0), "100000.0");
}

TEST(JsonText, NumbersThatJsonLacksAreTextAsInJava) {
  EXPECT_EQ(to_json(std::numeric_limits<double>::quiet_NaN()), "\"NaN\"");
  EXPECT_EQ(to_json(-std::numeric_limits<double>::infinity()), "\"-Infinity\"");
}

TEST(JsonText, StringsAreEscapedAndAlwaysUtf8) {
  std::string out;
  append_json_string(out, "a\"b\\c\n\x01 \xC3\xA9 \xFF \xED\xA0\x80");
  EXPECT_EQ(out,
            "\"a\\\"b\\\\c\\n\\u0001 \xC3\xA9 \xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(boost::json::parse(out).as_string().size(), 24U);
}

TEST(JsonText, WhatIsParsedIsWrittenBack) {
  const std::string text =
      R"({"a":[1,-2,3.25,true,null,"x"],"b":{},"c":[],"d":{"e":18446744073709551615}})";
  EXPECT_EQ(to_json(*parse_json(text)), text);
}

TEST(JsonText, BadJsonAndDeepJsonAreRefused) {
  EXPECT_TRUE(parse_json("{").is(ErrorCode::InvalidArgument));
  EXPECT_TRUE(parse_json(std::string(100'000, '[')).is(ErrorCode::InvalidArgument));
}

}  // namespace
}  // namespace geminga
