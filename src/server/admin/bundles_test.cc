#include "server/admin/bundles.h"

#include <gtest/gtest.h>

#include "server/json_text.h"

namespace geminga {
namespace {

boost::json::object policies(std::int64_t count) {
  boost::json::object out;
  out["bundles"] = even_bundles(count);
  return out;
}

TEST(Bundles, EvenOnesAreThoseOfTheOracle) {
  EXPECT_EQ(
      to_json(even_bundles(4)),
      R"({"boundaries":["0x00000000","0x40000000","0x80000000","0xc0000000","0xffffffff"],"numBundles":4})");
  EXPECT_EQ(
      to_json(even_bundles(3)),
      R"({"boundaries":["0x00000000","0x55555555","0xaaaaaaaa","0xffffffff"],"numBundles":3})");
}

TEST(Bundles, EveryHashIsInOne) {
  EXPECT_EQ(bundle_of(policies(4), 0), "0x00000000_0x40000000");
  EXPECT_EQ(bundle_of(policies(4), 0x40000000), "0x40000000_0x80000000");
  EXPECT_EQ(bundle_of(policies(4), 0xffffffff), "0xc0000000_0xffffffff");
  EXPECT_EQ(bundle_of({}, 5), "0x00000000_0xffffffff");
}

TEST(Bundles, RangesAreChecked) {
  EXPECT_EQ(why_no_bundle(policies(4), "t/n", "0x00000000_0x40000000"), "");
  EXPECT_EQ(
      why_no_bundle(policies(4), "t/n", "0x00000000_0x12345678"),
      "Invalid upper boundary for bundle t/n/0x00000000_0x12345678. Expected upper boundary of "
      "t/n/0x00000000_0x40000000");
  EXPECT_EQ(why_no_bundle(policies(4), "t/n", "0x00000001_0x12345678"),
            "Cannot find bundle t/n/0x00000001_0x12345678 in the bundles list");
  for (const char* broken : {"", "HOT", "0x1", "0x2_0x1", "1_2", "0x1_0x2x", "0x1_0x123456789"}) {
    EXPECT_FALSE(parse_bundle(broken)) << broken;
  }
}

}  // namespace
}  // namespace geminga
