// The broker's calls for the admin API: create, delete, unload, list.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/url_encoding.h"
#include "broker/broker.h"
#include "broker/call_on.h"
#include "broker/namespaces.h"
#include "broker/topic_compaction.h"
#include "broker/topic_shard.h"

namespace geminga {

namespace {

Status already_exists() { return Status::Conflict("This topic already exists"); }

}  // namespace

Task<Status> Broker::create_topic(TopicName name, std::map<std::string, std::string> properties) {
  const Result<bool> exists = co_await topic_exists(name);
  if (!exists) co_return exists.status();
  if (*exists) co_return already_exists();
  if (!name.is_partition()) {
    const Result<std::int32_t> count = co_await namespaces_->partition_count(name);
    if (!count) co_return count.status();
    if (*count > 0) co_return already_exists();
  }
  GM_CO_RETURN_IF_ERROR(co_await room_for_topics(name, 1));
  auto work = [this, name, properties]() -> Task<Status> {
    TopicOptions options;
    options.create_if_missing = true;
    const Result<std::shared_ptr<Topic>> topic = co_await this->topic(name, options);
    if (!topic) co_return topic.status();
    ManagedLedger* ledger = (*topic)->managed_ledger();
    if (ledger == nullptr || properties.empty()) co_return Status::ok();
    auto all = ledger->properties();
    for (const auto& [key, value] : properties) all[key] = value;
    co_return co_await ledger->set_properties(std::move(all));
  };
  co_return co_await call_on(shard_of(name), std::move(work));
}

Task<Status> Broker::delete_topic(TopicName name, bool force) {
  Shard& shard = shard_of(name);
  auto work = [topics = topic_shards_[shard.id()].get(), name, force]() -> Task<Status> {
    return topics->remove(name, force);
  };
  co_return co_await call_on(shard, std::move(work));
}

Task<Status> Broker::unload_topic(TopicName name) {
  Shard& shard = shard_of(name);
  auto work = [topics = topic_shards_[shard.id()].get(), name]() -> Task<Status> {
    return topics->unload(name);
  };
  co_return co_await call_on(shard, std::move(work));
}

Task<Status> Broker::create_partitioned_topic(TopicName name, std::int32_t partitions,
                                              std::map<std::string, std::string> properties) {
  const std::int64_t most = live_config_.now()->max_num_partitions_per_partitioned_topic;
  if (partitions <= 0) {
    co_return Status::PreconditionFailed("Number of partitions should be more than 0");
  }
  if (most > 0 && partitions > most) {
    co_return Status::PreconditionFailed(
        fmt::format("Number of partitions should be less than or equal to {}", most));
  }
  if (name.is_partition()) {
    co_return Status::PreconditionFailed("Partitioned Topic Name should not contain '-partition-'");
  }
  const Result<bool> exists = co_await topic_exists(name);
  if (!exists) co_return exists.status();
  if (*exists) co_return already_exists();
  const Status created =
      co_await namespaces_->create_partitioned(name, partitions, std::move(properties));
  if (created.is(ErrorCode::AlreadyExists)) co_return already_exists();
  if (!created || !name.persistent()) co_return created;
  for (std::int32_t i = 0; i < partitions; ++i) {
    const Status partition = co_await create_topic(name.partition(i), {});
    if (!partition && !partition.is(ErrorCode::Conflict)) co_return partition;
  }
  co_return Status::ok();
}

Task<Status> Broker::update_partitions(TopicName name, std::int32_t partitions) {
  const Result<std::int32_t> before = co_await namespaces_->partition_count(name);
  if (!before) co_return before.status();
  if (*before == 0) {
    co_return Status::NotFound(
        fmt::format("Partitioned Topic not found: {} has zero partitions", name.full()));
  }
  GM_CO_RETURN_IF_ERROR(co_await namespaces_->grow_partitioned(name, partitions));
  if (!name.persistent()) co_return Status::ok();
  // The new partitions get the subscriptions of the old ones, so that nothing published there is
  // missed.
  const TopicName first = name.partition(0);
  using Subscriptions = std::map<std::string, std::map<std::string, std::string>>;  // properties
  auto work = [this, first]() -> Task<Result<Subscriptions>> {
    TopicOptions options;
    options.create_if_missing = true;
    const auto topic = co_await this->topic(first, options);
    if (!topic) co_return topic.status();
    Subscriptions durable;
    for (const std::string& subscription : (*topic)->subscription_names()) {
      if (subscription == kCompactionCursor) continue;
      const auto found = (*topic)->subscription(subscription);
      if (found != nullptr && found->cursor() != nullptr && found->cursor()->durable()) {
        durable[subscription] = found->cursor()->properties();
      }
    }
    co_return durable;
  };
  const Result<Subscriptions> subscriptions = co_await call_on(shard_of(first), std::move(work));
  if (!subscriptions) co_return subscriptions.status();
  for (std::int32_t i = *before; i < partitions; ++i) {
    const TopicName partition = name.partition(i);
    const Status created = co_await create_topic(partition, {});
    if (!created && !created.is(ErrorCode::Conflict)) co_return created;
    auto work2 = [this, partition, subscriptions = *subscriptions]() -> Task<Status> {
      const auto topic = co_await this->topic(partition, TopicOptions());
      if (!topic) co_return topic.status();
      for (const auto& [subscription, properties] : subscriptions) {
        const Status made =
            co_await (*topic)->create_subscription(subscription, Position::earliest(), properties);
        if (!made && !made.is(ErrorCode::AlreadyExists)) co_return made;
      }
      co_return Status::ok();
    };
    GM_CO_RETURN_IF_ERROR(co_await call_on(shard_of(partition), std::move(work2)));
  }
  co_return Status::ok();
}

Task<Status> Broker::delete_partitioned_topic(TopicName name, bool force) {
  const Result<std::int32_t> count = co_await namespaces_->partition_count(name);
  if (!count) co_return count.status();
  if (*count == 0) {
    co_return Status::NotFound(
        fmt::format("Partitioned Topic not found: {} has zero partitions", name.full()));
  }
  for (std::int32_t i = 0; i < *count; ++i) {
    const Status deleted = co_await delete_topic(name.partition(i), force);
    if (!deleted && !deleted.is(ErrorCode::TopicNotFound)) co_return deleted;
  }
  co_return co_await namespaces_->remove_partitioned(name);
}

Task<Result<std::vector<std::string>>> Broker::list_topics(std::string name_space, bool persistent,
                                                           bool non_persistent,
                                                           bool include_system) {
  std::set<std::string> topics;
  const auto add = [&](const TopicName& name) {
    if (include_system || !name.is_system()) topics.insert(name.full());
  };
  if (persistent) {
    const auto ledgers = co_await list_managed_ledgers(metadata_, name_space + "/persistent");
    if (!ledgers) co_return ledgers.status();
    for (const std::string& ledger : *ledgers) {
      const Result<std::string> local =
          url_decode(std::string_view(ledger).substr(ledger.rfind('/') + 1));
      if (!local) continue;
      const Result<TopicName> name = TopicName::parse("persistent://" + name_space + "/" + *local);
      if (name) add(*name);
    }
  }
  if (non_persistent) {
    for (auto& topics_of_shard : topic_shards_) {
      TopicShard* shard = topics_of_shard.get();
      using Names = std::vector<TopicName>;
      auto work = [shard, name_space]() -> Task<Names> {
        Names found;
        for (const auto& topic : shard->all()) {
          if (!topic->name().persistent() && topic->name().ns() == name_space)
            found.push_back(topic->name());
        }
        co_return found;
      };
      const Names names = co_await on_shard(shard->shard(), std::move(work));
      for (const TopicName& name : names) add(name);
    }
  }
  co_return std::vector<std::string>(topics.begin(), topics.end());
}

Task<std::vector<TopicName>> Broker::loaded_topics() {
  std::vector<TopicName> names;
  for (auto& topics_of_shard : topic_shards_) {
    TopicShard* shard = topics_of_shard.get();
    using Names = std::vector<TopicName>;
    auto work = [shard]() -> Task<Names> {
      Names found;
      for (const auto& topic : shard->all()) found.push_back(topic->name());
      co_return found;
    };
    Names some = co_await on_shard(shard->shard(), std::move(work));
    std::move(some.begin(), some.end(), std::back_inserter(names));
  }
  co_return names;
}

Task<void> Broker::refresh_topics() {
  for (auto& topics_of_shard : topic_shards_) {
    TopicShard* shard = topics_of_shard.get();
    auto work = [shard]() -> Task<void> {
      shard->refresh_all();
      co_return;
    };
    co_await on_shard(shard->shard(), std::move(work));
  }
}

Task<void> Broker::check_backlogs() {
  for (auto& topics_of_shard : topic_shards_) {
    TopicShard* shard = topics_of_shard.get();
    auto work = [shard]() -> Task<void> { return shard->check_backlogs(); };
    co_await on_shard(shard->shard(), std::move(work));
  }
}

Task<void> Broker::visit_topics(std::function<void(const Topic&)> visit) {
  constexpr std::size_t kPerTurn = 64;
  for (auto& topics_of_shard : topic_shards_) {
    TopicShard* shard = topics_of_shard.get();
    auto work = [shard, &visit]() -> Task<void> {
      const auto topics = shard->all();
      for (std::size_t i = 0; i < topics.size(); ++i) {
        if (!topics[i]->closing()) visit(*topics[i]);
        if (i % kPerTurn == kPerTurn - 1) co_await sleep_for(Millis{0});
      }
    };
    co_await on_shard(shard->shard(), std::move(work));
  }
}

Task<std::vector<LedgerStats>> Broker::ledger_stats() {
  std::vector<LedgerStats> found;
  for (const BrokerLogs::Log& each : logs_.logs) {
    LedgerStore* log = each.store;
    auto work = [log]() -> Task<LedgerStats> { co_return log->stats(); };
    found.push_back(co_await on_shard(runtime_.shard(each.shard), std::move(work)));
  }
  co_return found;
}

}  // namespace geminga
