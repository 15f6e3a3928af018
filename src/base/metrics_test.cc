#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <thread>

namespace geminga {
namespace {

using testing::HasSubstr;

TEST(Metrics, TableHasEachNameOnceAndPrometheusTakesIt) {
  std::set<std::string_view> names;
  for (const MetricInfo& info : metric_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    for (const char c : info.name)
      EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || c == '_') << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_EQ(info.help.find('\n'), std::string_view::npos);
  }
}

TEST(Metrics, PageAddsUpShardsAndEscapesLabels) {
  MetricsPage page;
  page.add(Metric::pulsar_rate_in, {"c", "public/default", "a\"b\\c\nd"}, 1.5);
  page.add(Metric::pulsar_broker_topics_count, {"c"}, 2);
  page.add(Metric::pulsar_broker_topics_count, {"c"}, 3);
  page.add(Metric::process_open_fds, {}, 7);
  const std::string text = page.text();
  EXPECT_THAT(text, HasSubstr("# TYPE process_open_fds gauge\nprocess_open_fds 7\n"));
  EXPECT_THAT(text, HasSubstr("\npulsar_broker_topics_count{cluster=\"c\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("pulsar_rate_in{cluster=\"c\",namespace=\"public/"
                              "default\",topic=\"a\\\"b\\\\c\\nd\"} 1.5\n"));
  EXPECT_LT(text.find("process_open_fds"), text.find("pulsar_broker_topics_count"));
}

TEST(Metrics, HistogramsCountCumulatively) {
  TimeHistogram histogram;
  histogram.record_ns(-5);
  histogram.record_ns(16'000);
  histogram.record_ns(16'001);
  histogram.record_ns(3'600'000'000'000);
  MetricsPage page;
  page.add(Metric::geminga_log_flush_seconds, {"0"}, histogram);
  const std::string text = page.text();
  EXPECT_THAT(text, HasSubstr("geminga_log_flush_seconds_bucket{log=\"0\",le=\"1.6e-05\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("geminga_log_flush_seconds_bucket{log=\"0\",le=\"3.2e-05\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("geminga_log_flush_seconds_bucket{log=\"0\",le=\"+Inf\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("geminga_log_flush_seconds_count{log=\"0\"} 4\n"));
}

TEST(Metrics, RegistryForgetsWhatDies) {
  MetricsRegistry registry;
  Counter counter;
  Gauge gauge;
  auto kept = registry.add(Metric::geminga_metadata_writes_total, {}, counter);
  {
    auto dying = registry.add(Metric::process_open_fds, {}, gauge);
    auto moved = std::move(dying);
    gauge.set(-3);
    MetricsPage page;
    registry.collect(page);
    EXPECT_THAT(page.text(), HasSubstr("process_open_fds -3\n"));
  }
  counter.add(2);
  MetricsPage page;
  registry.collect(page);
  EXPECT_THAT(page.text(), HasSubstr("geminga_metadata_writes_total 2\n"));
  EXPECT_THAT(page.text(), testing::Not(HasSubstr("process_open_fds")));
}

TEST(Metrics, ScrapesWhileCounting) {
  MetricsRegistry registry;
  Counter counter;
  auto registration = registry.add(Metric::geminga_metadata_writes_total, {}, counter);
  std::thread writer([&] {
    for (int i = 0; i < 100'000; ++i) counter.add();
  });
  for (int i = 0; i < 50; ++i) {
    MetricsPage page;
    registry.collect(page);
  }
  writer.join();
  EXPECT_EQ(counter.value(), 100'000U);
}

TEST(Metrics, ReferencePageIsUpToDate) {
  std::ifstream file(std::string(GEMINGA_SOURCE_DIR) + "/docs/reference/metrics.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (page == metrics_reference_markdown()) return;
  const std::string fresh = testing::TempDir() + "/metrics.md";
  std::ofstream(fresh) << metrics_reference_markdown();
  ADD_FAILURE() << "docs/reference/metrics.md is old: copy " << fresh << " over it";
}

}  // namespace
}  // namespace geminga
