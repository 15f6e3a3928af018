// The topics that are loaded, by namespace and bundle: what statistics of the broker are told by.
// Their names are held while an answer is made, their statistics never all at once.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <vector>

#include "server/admin/admin.h"

namespace geminga {

// Of all subscriptions of a topic.
template <typename T>
T sum(const TopicStats& stats, T SubscriptionNumbers::*field) {
  T total = 0;
  for (const SubscriptionStats& sub : stats.subscriptions) total += sub.*field;
  return total;
}

// In which bundle a topic is, of the namespaces that were looked up.
class Bundles {
 public:
  // Reads the policies of the topics' namespaces.
  static Task<Result<Bundles>> of(Admin& admin, const std::vector<TopicName>& topics);
  // "0x00000000_0x40000000"; of a namespace that was not looked up that of all hashes.
  std::string bundle(const TopicName& topic) const;

 private:
  std::map<std::string, boost::json::object, std::less<>> policies_;
};

}  // namespace geminga
