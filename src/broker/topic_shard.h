// The topics of one shard: loads them when someone needs them, hands out the one loaded instance,
// unloads and deletes them. While a topic is being loaded, unloaded or deleted everyone else waits
// for the end of it; who came for a topic that was being deleted then finds it gone, and creates a
// new one if that is allowed. Owned by the broker, one a shard; used on that shard only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "broker/topic.h"
#include "broker/topic_name.h"
#include "runtime/async.h"
#include "runtime/gate.h"

namespace geminga {

class Broker;
class MetadataWatch;

class TopicShard {
 public:
  TopicShard(Broker& broker, Shard& shard);
  ~TopicShard();

  Shard& shard() { return shard_; }
  // Begins to look for inactive topics and for changed policies.
  void start();

  Task<Result<std::shared_ptr<Topic>>> get(TopicName name, bool create_if_missing);
  // nullptr unless it is loaded and serving.
  std::shared_ptr<Topic> loaded(const TopicName& name) const;
  std::vector<std::shared_ptr<Topic>> all() const;
  std::size_t size() const { return topics_.size(); }

  // OK if it is not loaded.
  Task<Status> unload(TopicName name);
  // Loads it first if need be. TopicNotFound if there is none.
  Task<Status> remove(TopicName name, bool force);
  // What the broker does by itself from time to time, as if it were `now` (ms since 1970): topics
  // that nobody uses and subscriptions that nobody used for long are deleted.
  Task<void> delete_inactive(std::int64_t now);
  Task<void> expire_subscriptions(std::int64_t now);
  Task<void> check_backlogs();
  // What was held back because the broker had too much unacknowledged may go on.
  void resume_all();
  // Every topic takes its settings anew.
  void refresh_all();
  // Unloads all; nothing is loaded any more.
  Task<Status> close();

 private:
  struct Slot {
    std::shared_ptr<Topic> topic;
    std::shared_ptr<Event> busy;     // being loaded, unloaded or deleted; set at the end
    std::int64_t idle_since_ms = 0;  // 0: in use when last looked at
  };
  // Takes the topic for itself; gives the slot free again with done().
  class Turn;

  Task<Result<std::shared_ptr<Topic>>> load(TopicName name, bool create_if_missing);
  Task<Status> remove_log(TopicName name);
  Task<void> wait_idle(const TopicName& name);
  void unload_failed(const TopicName& name);
  // Only if it still is the one that cannot serve any more.
  Task<Status> unload_closing(TopicName name);
  Task<Status> close_loaded(TopicName name);
  Task<void> look_after_topics();
  Task<void> expire_messages();
  Task<void> look_after_compaction();
  void policies_changed(const std::string& path);
  void topic_policies_changed(const std::string& path);
  void refresh(std::shared_ptr<Topic> topic);

  Broker& broker_;
  Shard& shard_;
  Gate gate_;
  bool closing_ = false;
  asio::steady_timer timer_;
  asio::steady_timer compaction_timer_;
  std::unique_ptr<MetadataWatch> policy_watch_;
  std::unique_ptr<MetadataWatch> topic_policy_watch_;
  std::int64_t expired_ms_ = 0;  // when messages were last expired
  std::int64_t subscriptions_expired_ms_ = 0;
  std::int64_t backlogs_checked_ms_ = 0;
  std::int64_t inactive_checked_ms_ = 0;
  std::int64_t snapshots_checked_ms_ = 0;
  std::unordered_map<TopicName, Slot> topics_;
};

}  // namespace geminga
