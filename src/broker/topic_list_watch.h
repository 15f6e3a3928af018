// One WATCH_TOPIC_LIST of a connection: tells the client which matching topics of a namespace came
// and went.
//
// Stands on the metadata store's watch of the namespace's managed ledgers, so topics that are
// created or deleted anywhere are seen. Owned by the session, on whose shard everything happens;
// nothing is told before start().
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "broker/topics_pattern.h"

namespace geminga {

class MetadataWatch;
struct MetadataEvent;
class Session;

class TopicListWatch {
 public:
  TopicListWatch(Session& session, std::uint64_t id, std::string name_space, TopicsPattern pattern);
  ~TopicListWatch();

  const TopicsPattern& pattern() const { return pattern_; }
  bool ready() const { return ready_; }
  // From now on changes are noted.
  void listen();
  // The client knows `topics`; what changed since listen() follows, and everything after it.
  void start(std::vector<std::string> topics);

 private:
  void changed(const MetadataEvent& event);
  void apply(const std::string& topic, bool exists);

  Session& session_;
  const std::uint64_t id_;
  const std::string namespace_;
  const TopicsPattern pattern_;
  std::unique_ptr<MetadataWatch> watch_;
  std::set<std::string> topics_;
  std::vector<std::pair<std::string, bool>> early_;  // changes before start()
  bool ready_ = false;
};

}  // namespace geminga
