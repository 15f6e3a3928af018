#include "broker/compaction_subscription.h"

namespace geminga {

namespace {

Status refused() {
  return Status::NotAllowed(
      "__compaction is the topic's own: it moves when the topic is compacted");
}

class CompactionSubscription final : public Subscription {
 public:
  CompactionSubscription(const TopicCompaction& compaction, std::shared_ptr<ManagedCursor> cursor)
      : compaction_(compaction), cursor_(std::move(cursor)) {}

  const std::string& name() const override { return cursor_->name(); }
  std::optional<SubscriptionType> type() const override { return SubscriptionType::Exclusive; }
  std::size_t consumer_count() const override { return 0; }
  ManagedCursor* cursor() const override { return cursor_.get(); }

  Task<Result<std::shared_ptr<Consumer>>> add_consumer(SubscribeRequest) override {
    co_return refused();
  }
  void remove_consumer(const std::shared_ptr<Consumer>&) override {}
  void flow(Consumer&, std::uint32_t) override {}
  Status ack(Consumer&, const AckRequest&) override { return refused(); }
  void redeliver(Consumer&, std::span<const Position>, std::int64_t) override {}
  Task<Status> seek(Position, AckSet) override { co_return refused(); }
  Task<Status> seek_to_time(std::int64_t) override { co_return refused(); }
  Task<Status> prepare_unsubscribe(const std::shared_ptr<Consumer>&, bool) override {
    co_return refused();
  }
  Task<void> close(bool) override { co_return; }
  // Nor does clearing the backlog of all subscriptions concern it.
  Task<Status> skip_all() override { co_return Status::ok(); }
  Task<Status> skip(std::int64_t) override { co_return refused(); }
  // What is too old for subscriptions is compacted all the same.
  Task<Status> expire(std::int64_t) override { co_return Status::ok(); }
  void entries_available() override {}

  SubscriptionStats stats() const override {
    SubscriptionStats stats;
    static_cast<SubscriptionNumbers&>(stats) = numbers();
    stats.name = name();
    stats.type = SubscriptionType::Exclusive;
    return stats;
  }
  SubscriptionSample sample(bool) const override { return {name(), numbers(), {}}; }
  ConsumerStats stats_of(const Consumer&) const override { return {}; }

 private:
  SubscriptionNumbers numbers() const {
    SubscriptionNumbers numbers;
    numbers.bytes_out = compaction_.cursor_bytes_read();
    numbers.msg_out = compaction_.cursor_messages_read();
    numbers.msg_backlog = cursor_->backlog_entries();
    numbers.messages_backlog = cursor_->backlog_messages();
    numbers.backlog_size = cursor_->backlog_bytes();
    return numbers;
  }

  const TopicCompaction& compaction_;
  const std::shared_ptr<ManagedCursor> cursor_;
};

}  // namespace

std::shared_ptr<Subscription> make_compaction_subscription(const TopicCompaction& compaction,
                                                           std::shared_ptr<ManagedCursor> cursor) {
  return std::make_shared<CompactionSubscription>(compaction, std::move(cursor));
}

}  // namespace geminga
