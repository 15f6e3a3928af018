// `geminga perf` as a user calls it, against a broker in memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/perf_options.h"
#include "client/fake_broker_test_support.h"

namespace geminga {
namespace {

using client::FakeBroker;

class PerfTest : public testing::Test {
 protected:
  PerfTest() {
    json_ = std::filesystem::temp_directory_path() /
            ("geminga-perf-test-" + std::to_string(getpid()) + ".json");
    url_ = broker_.url();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~PerfTest() override {
    io_.stop();
    thread_.join();
    std::filesystem::remove(json_);
  }

  // The exit code; the results are in report_.
  int perf(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "geminga perf");
    for (const char* more : {"--quiet", "--json"}) arguments.emplace_back(more);
    arguments.push_back(json_.string());
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    const int code = perf_main(static_cast<int>(argv.size()), argv.data());
    std::ifstream file(json_);
    std::stringstream text;
    text << file.rdbuf();
    report_ = text.str().empty() ? boost::json::value() : boost::json::parse(text.str());
    return code;
  }
  std::int64_t number(const char* pointer) {
    return report_.at_pointer(pointer).to_number<std::int64_t>();
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  FakeBroker broker_{io_};
  std::string url_;
  std::thread thread_;
  std::filesystem::path json_;
  boost::json::value report_;
};

TEST_F(PerfTest, ProduceCountsAndMeasures) {
  ASSERT_EQ(
      perf({"produce", "--url", url_, "--messages", "1000", "--size", "200", "--no-batching"}),
      kExitOk);
  EXPECT_EQ(number("/acknowledged"), 1000);
  EXPECT_EQ(number("/failed"), 0);
  EXPECT_EQ(number("/publish/latency_ms/count"), 1000);
  EXPECT_GT(report_.at_pointer("/publish/rate").to_number<double>(), 0);
  // The fake topic has three partitions, which are served in turn.
  EXPECT_EQ(broker_.entries.size(), 3U);
  EXPECT_EQ(broker_.sends, 1000);
}

TEST_F(PerfTest, LatencyPublishesAtTheRateAndReceivesAll) {
  ASSERT_EQ(perf({"latency", "--url", url_, "--messages", "400", "--rate", "2000", "--topics", "2",
                  "--threads", "2", "--key-count", "5"}),
            kExitOk);
  EXPECT_EQ(number("/acknowledged"), 400);
  EXPECT_EQ(number("/received"), 400);
  EXPECT_EQ(number("/missing"), 0);
  EXPECT_EQ(number("/consume/end_to_end_ms/count"), 400);
  // 200 messages a thread at 1000 a second.
  EXPECT_GE(report_.at_pointer("/publish/seconds").to_number<double>(), 0.19);
}

TEST_F(PerfTest, ReadEndsAtTheLastMessage) {
  ASSERT_EQ(perf({"produce", "--url", url_, "--messages", "300", "--size", "64"}), kExitOk);
  ASSERT_EQ(perf({"read", "--url", url_}), kExitOk);
  EXPECT_EQ(number("/received"), 300);
  ASSERT_EQ(perf({"consume", "--url", url_, "--messages", "300"}), kExitOk);
  EXPECT_GE(number("/received"), 300);
}

TEST_F(PerfTest, AcknowledgesInRandomOrderWhatItHolds) {
  ASSERT_EQ(perf({"produce", "--url", url_, "--messages", "300", "--size", "64", "--no-batching"}),
            kExitOk);
  for (const char* window : {"10", "1000"}) {
    broker_.acked.clear();
    ASSERT_EQ(perf({"consume", "--url", url_, "--messages", "300", "--ack-window", window}),
              kExitOk);
    std::vector<Position> acked = broker_.acked;
    EXPECT_EQ(acked.size(), 300U);
    EXPECT_FALSE(std::is_sorted(acked.begin(), acked.end()));
    std::sort(acked.begin(), acked.end());
    // Three partitions of a hundred.
    EXPECT_EQ(std::unique(acked.begin(), acked.end()) - acked.begin(), 100);
  }
}

TEST_F(PerfTest, DelaysMessagesByOnceToTwiceTheTime) {
  const std::int64_t begin = now_ms();
  ASSERT_EQ(perf({"produce", "--url", url_, "--messages", "60", "--deliver-after", "100"}),
            kExitOk);
  const std::int64_t end = now_ms();
  std::set<std::int64_t> times;
  for (const auto& [topic, entries] : broker_.entries) {
    for (const std::string& entry : entries) {
      const auto metadata = parse_entry_metadata(std::as_bytes(std::span(entry)));
      ASSERT_TRUE(metadata.is_ok());
      times.insert(metadata->deliver_at_time);
    }
  }
  EXPECT_GT(times.size(), 30U);
  EXPECT_GE(*times.begin(), begin + 100'000);
  EXPECT_LE(*times.rbegin(), end + 200'000);
}

TEST_F(PerfTest, FailedMessagesFailTheRun) {
  broker_.script.fail_sequences = {5, 7};
  EXPECT_EQ(perf({"produce", "--url", url_, "--messages", "100", "--no-batching"}), kExitFailed);
  EXPECT_EQ(number("/failed"), 6);  // two in each partition
  EXPECT_EQ(number("/acknowledged"), 94);
  EXPECT_EQ(report_.at("errors").as_object().size(), 1U);
}

TEST_F(PerfTest, ALostConnectionEndsTheRun) {
  broker_.script.drop_after_sends = 50;
  EXPECT_EQ(perf({"produce", "--url", url_, "--no-batching", "--duration", "20"}), kExitFailed);
  EXPECT_GT(number("/failed"), 0);
}

TEST_F(PerfTest, WrongUsage) {
  EXPECT_EQ(perf({}), kExitUsage);
  EXPECT_EQ(perf({"nonsense"}), kExitUsage);
  EXPECT_EQ(perf({"produce", "--rate", "-1"}), kExitUsage);
  EXPECT_EQ(perf({"consume", "--type", "both"}), kExitUsage);
  EXPECT_EQ(perf({"produce", "--url", "pulsar://127.0.0.1:1", "--messages", "1"}), kExitFailed);
  EXPECT_EQ(perf({"produce", "--url", url_, "--partitions", "4"}), kExitFailed);
}

TEST(PerfOptionsTest, InFlightFollowsBatching) {
  PerfOptions options;
  EXPECT_EQ(options.messages_in_flight(), 20'000U);
  options.batching = false;
  EXPECT_EQ(options.messages_in_flight(), 1000U);
  options.in_flight = 7;
  EXPECT_EQ(options.messages_in_flight(), 7U);
  options.topics = 2;
  EXPECT_EQ(options.topic_names(), (std::vector<std::string>{"perf-0", "perf-1"}));
}

}  // namespace
}  // namespace geminga
