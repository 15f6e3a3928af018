// Who watches which part of the tree. Watches are made and destroyed on shards, events come from
// the store's writer thread and are posted to each watch's shard, in order, a group of writes in
// one post. The registry lives as long as the store or any watch.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "metadata/metadata_store.h"
#include "runtime/shard.h"

namespace geminga {

class WatchRegistry : public std::enable_shared_from_this<WatchRegistry> {
 public:
  using OnEvent = UniqueFunction<void(const MetadataEvent&)>;

  // On the shard that shall be called. `prefix` is a valid path.
  std::unique_ptr<MetadataWatch> add(std::string prefix, OnEvent on_event);
  // The writer thread.
  void publish(const std::vector<MetadataEvent>& events);

 private:
  class Watch;
  // Shared by the watch and the posts under way to its shard; `alive` and `on_event` are the
  // shard's.
  struct State {
    Shard* shard = nullptr;
    OnEvent on_event;
    bool alive = true;
  };
  using Watches = std::multimap<std::string, std::shared_ptr<State>, std::less<>>;

  void remove(const std::string& prefix, const State* state);

  std::mutex mutex_;  // between the shards and the writer thread; never held while calling out
  Watches watches_;
};

}  // namespace geminga
