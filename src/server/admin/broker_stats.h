// The topics that are loaded, by namespace and bundle: what statistics of the broker are told by.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/admin/admin.h"

namespace geminga {

struct PlacedTopic {
  const Broker::TopicSnapshot* snapshot;
  TopicName name;
};
// By namespace, then by bundle.
using TopicsByBundle = std::map<std::string, std::map<std::string, std::vector<PlacedTopic>>>;

// Refers to `topics`.
Task<Result<TopicsByBundle>> by_bundle(Admin& admin,
                                       const std::vector<Broker::TopicSnapshot>& topics);

}  // namespace geminga
