#include "base/iso_time.h"

#include <gtest/gtest.h>

namespace geminga {
namespace {

TEST(IsoTime, PrintsAsJavaDoes) {
  EXPECT_EQ(iso_time(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(iso_time(1796059596650), "2026-11-30T17:26:36.65Z");
  EXPECT_EQ(iso_time(1796059596007), "2026-11-30T17:26:36.007Z");
  EXPECT_EQ(iso_time(-1), "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace geminga
