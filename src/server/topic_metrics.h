// What /metrics shows of topics, their subscriptions, consumers and producers.
//
// take() is called with every loaded topic; then add_sums() puts what is known of the whole broker
// and of namespaces on the page, and stream() writes the rest while it is sent: metric after
// metric, as the format wants it, in pieces of bounded size. One sample a topic is kept (about 700
// bytes with one subscription), or, where exposeTopicLevelMetricsInPrometheus is off, one a
// namespace. One owner; no call beside another.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/metrics.h"
#include "broker/topic.h"
#include "server/http_message.h"

namespace geminga {

class TopicMetrics {
 public:
  TopicMetrics(std::string cluster, const BrokerConfig& config);

  // On the topic's shard.
  void take(const Topic& topic);
  void add_sums(MetricsPage& page) const;
  // The page, then the samples. To be called once, last.
  std::unique_ptr<BodyStream> stream(std::string page);

 private:
  // Of all topics, or those of a namespace.
  struct Sum {
    TopicSample sample;  // with one subscription, which is the sum of all
    std::size_t topics = 0;
    std::size_t stored_topics = 0;
    std::size_t subscriptions = 0;
    std::int64_t bytes_in_system = 0;
    std::int64_t bytes_out_internal = 0;
  };
  static void add(Sum& sum, const TopicSample& topic, const TopicName& name);

  const std::string cluster_;
  const bool by_topic_;
  const SampleDetail detail_;
  Sum all_;
  std::map<std::string, Sum, std::less<>> namespaces_;
  std::vector<TopicSample> topics_;  // by_topic_ only
};

}  // namespace geminga
