// The topics that are loaded, by namespace and bundle: what statistics of the broker are told by.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/admin/admin.h"

namespace geminga {

struct TopicSnapshot {
  std::string name;
  TopicStats stats;
};
// Of every loaded topic, of all shards.
Task<std::vector<TopicSnapshot>> topic_snapshots(Broker& broker);

struct PlacedTopic {
  const TopicSnapshot* snapshot;
  TopicName name;
};
// By namespace, then by bundle.
using TopicsByBundle = std::map<std::string, std::map<std::string, std::vector<PlacedTopic>>>;

// Refers to `topics`.
Task<Result<TopicsByBundle>> by_bundle(Admin& admin, const std::vector<TopicSnapshot>& topics);

}  // namespace geminga
