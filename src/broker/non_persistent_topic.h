// A topic that stores nothing: what is published goes to the consumers that are connected and have
// room for it, or is dropped and counted. Receipts are 0:0 at once. Made by TopicShard, used on its
// shard only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "broker/producer_registry.h"
#include "broker/publish_pacer.h"
#include "broker/subscribe_limiter.h"
#include "broker/topic.h"
#include "broker/topic_settings.h"
#include "broker/windowed_rate.h"
#include "runtime/gate.h"

namespace geminga {

struct BrokerConfig;
class NonPersistentSubscription;

class NonPersistentTopic final : public Topic,
                                 public std::enable_shared_from_this<NonPersistentTopic> {
 public:
  NonPersistentTopic(Shard& shard, TopicName name, const BrokerConfig& config);
  ~NonPersistentTopic() override;

  const TopicName& name() const override { return name_; }
  Shard& shard() const override { return shard_; }
  bool closing() const override { return closing_; }
  void apply(const TopicSettings& settings) override;
  ManagedLedger* managed_ledger() const override { return nullptr; }

  Task<Result<ProducerGrant>> add_producer(ProducerRequest request) override;
  Task<void> remove_producer(std::shared_ptr<Producer> producer) override;
  void publish(std::vector<PublishItem>& items) override;

  std::shared_ptr<Subscription> subscription(const std::string& name) const override;
  std::vector<std::string> subscription_names() const override;
  Task<Result<Subscribed>> subscribe(SubscribeRequest request) override;
  Task<Status> create_subscription(std::string name, Position start,
                                   std::map<std::string, std::string> properties) override;
  Task<Status> delete_subscription(std::string name, bool force) override;
  void drop_non_durable(const std::string& name) override;

  Task<Result<LastMessage>> last_message_id() override;
  Task<Result<Position>> terminate() override;
  bool terminated() const override { return false; }
  Task<Status> close() override;
  Task<Status> remove(bool force) override;

  TopicStats stats() const override;
  TopicSample sample(SampleDetail detail) const override;
  std::size_t producer_count() const override { return producers_.size(); }
  std::size_t consumer_count() const override;

 private:
  std::shared_ptr<NonPersistentSubscription> find_or_create(const std::string& name);
  Task<void> disconnect_all(bool deleting);
  TopicNumbers numbers(std::int64_t now_ns) const;
  // What the publish rate lets pass.
  void publish_now(std::vector<PublishItem>& items);
  Status room_for_consumer(const SubscribeRequest& request);

  Shard& shard_;
  const TopicName name_;
  const BrokerConfig& config_;
  Gate gate_;
  ProducerRegistry producers_;
  std::map<std::string, std::shared_ptr<NonPersistentSubscription>> subscriptions_;
  bool closing_ = false;

  TopicSettings settings_;
  std::unique_ptr<PublishPacer> pacer_;  // nullptr: there was no publish rate yet
  SubscribeLimiter subscribe_rate_;

  std::int64_t messages_in_ = 0;
  std::int64_t bytes_in_ = 0;
  WindowedRate message_rate_;
  WindowedRate byte_rate_;
};

}  // namespace geminga
