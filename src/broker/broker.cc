#include "broker/broker.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/url_encoding.h"
#include "broker/broker_metrics.h"
#include "broker/ledger_sweep.h"
#include "broker/namespaces.h"
#include "broker/policy_parts.h"
#include "broker/topic_policies.h"
#include "broker/topic_shard.h"
#include "broker/transactions.h"
#include "broker/unacked_budget.h"
#include "runtime/async.h"
#include "schema/schema_registry.h"

namespace geminga {

namespace {

BrokerLogs without_groups(const std::vector<LedgerStore*>& logs, unsigned shards) {
  BrokerLogs all;
  for (LedgerStore* log : logs) {
    all.logs.push_back({log, static_cast<unsigned>(all.logs.size()) % shards});
  }
  all.groups.push_back({"", 0, static_cast<unsigned>(logs.size())});
  return all;
}

std::vector<std::string> names_of(const std::vector<BrokerLogs::Group>& groups) {
  std::vector<std::string> names;
  for (const BrokerLogs::Group& group : groups) names.push_back(group.name);
  return names;
}

}  // namespace

Broker::Broker(Runtime& runtime, const BrokerConfig& config, MetadataStore& metadata,
               std::vector<LedgerStore*> logs, BrokerAddresses addresses)
    : Broker(runtime, config, metadata, without_groups(logs, runtime.shard_count()),
             std::move(addresses)) {}

Broker::Broker(Runtime& runtime, const BrokerConfig& config, MetadataStore& metadata,
               BrokerLogs logs, BrokerAddresses addresses)
    : runtime_(runtime),
      config_(config),
      metadata_(metadata),
      live_config_(metadata, config),
      logs_(std::move(logs)),
      addresses_(std::move(addresses)),
      metrics_(std::make_unique<BrokerMetrics>(runtime.shard_count())),
      namespaces_(std::make_unique<Namespaces>(metadata, config)),
      isolation_(std::make_unique<Isolation>(
          metadata, names_of(logs_.groups),
          [this](std::string name_space) { return contents_of(std::move(name_space)); })) {
  for (const BrokerLogs::Log& log : logs_.logs) {
    schema_registries_.push_back(std::make_unique<SchemaRegistry>(metadata, *log.store));
  }
  for (unsigned i = 0; i < runtime.shard_count(); ++i) {
    topic_shards_.push_back(std::make_unique<TopicShard>(*this, runtime.shard(i)));
  }
  unacked_ = std::make_unique<UnackedBudget>(
      runtime.shard_count(), config.max_unacked_messages_per_broker,
      parse_share(config.max_unacked_messages_per_subscription_on_broker_blocked).value_or(1),
      [this] {
        for (const auto& topics : topic_shards_) {
          topics->shard().post([at = topics.get()] { at->resume_all(); });
        }
      });
  transactions_ = std::make_unique<Transactions>(*this);
  sweep_ = std::make_unique<LedgerSweep>(runtime, metadata, logs_.logs);
}

Broker::~Broker() = default;

Task<Status> Broker::open() {
  GM_CO_RETURN_IF_ERROR(co_await namespaces_->bootstrap());
  GM_CO_RETURN_IF_ERROR(co_await live_config_.open());
  GM_CO_RETURN_IF_ERROR(co_await isolation_->open());
  // One number a start, so that names made before a restart are never made again.
  MetadataPut sequential;
  sequential.sequential = true;
  const Result<MetadataPutResult> node =
      co_await metadata_.put("/counters/producer-name/-", "", sequential);
  if (!node) co_return node.status();
  instance_ = std::strtoll(node->path.c_str() + node->path.rfind('-') + 1, nullptr, 10);
  GM_CO_RETURN_IF_ERROR(co_await metadata_.remove(node->path));
  co_await sweep_->start();
  for (auto& topics : topic_shards_) {
    TopicShard* shard = topics.get();
    auto work = [shard]() -> Task<void> {
      shard->start();
      co_return;
    };
    co_await on_shard(shard->shard(), std::move(work));
  }
  co_return co_await transactions_->start();
}

Task<Status> Broker::close() {
  co_await sweep_->close();
  Status first = co_await transactions_->close();
  for (auto& topics : topic_shards_) {
    TopicShard* shard = topics.get();
    auto work = [shard] { return shard->close(); };
    Status status = co_await on_shard(shard->shard(), std::move(work));
    if (!status && first.is_ok()) first = std::move(status);
  }
  co_return first;
}

// --- where things are ---

unsigned Broker::log_of(const TopicName& name) const {
  const BrokerLogs::Group& group = logs_.groups[isolation_->group_of(name.ns())];
  return group.first + name.bundle_hash() % group.count;
}
LedgerStore& Broker::ledgers(const TopicName& name) { return *logs_.logs[log_of(name)].store; }
Shard& Broker::shard_of(const TopicName& name) const {
  return runtime_.shard(logs_.logs[log_of(name)].shard);
}
SchemaPlace Broker::schemas(const TopicName& name) {
  const unsigned log = log_of(name.base());
  return {runtime_.shard(logs_.logs[log].shard), *schema_registries_[log]};
}
const std::string& Broker::service_url_of(const TopicName& name) const {
  const unsigned group = isolation_->group_of(name.ns());
  const bool own =
      group > 0 && group < addresses_.group_urls.size() && !addresses_.group_urls[group].empty();
  return own ? addresses_.group_urls[group] : addresses_.service_url;
}

Task<Result<std::vector<std::string>>> Broker::contents_of(std::string name_space) {
  auto found = co_await list_topics(name_space, true, true, true);
  if (!found) co_return found.status();
  for (const TopicDomain domain : {TopicDomain::Persistent, TopicDomain::NonPersistent}) {
    auto partitioned = co_await namespaces_->partitioned_topics(name_space, domain);
    if (!partitioned) co_return partitioned.status();
    found->insert(found->end(), partitioned->begin(), partitioned->end());
  }
  auto schemas = co_await metadata_.children("/schemas/" + name_space);
  if (!schemas) co_return schemas.status();
  for (const std::string& topic : *schemas)
    found->push_back("the schema of " + name_space + "/" + topic);
  co_return std::move(*found);
}

UnackedBudget* Broker::unacked() { return unacked_->limited() ? unacked_.get() : nullptr; }

std::string Broker::next_producer_name() {
  return fmt::format("{}-{}-{}", config_.cluster_name, instance_,
                     producer_counter_.fetch_add(1, std::memory_order_relaxed));
}

// --- topics ---

Task<Result<std::shared_ptr<Topic>>> Broker::topic(TopicName name, TopicOptions options) {
  Shard& shard = shard_of(name);
  if (!shard.is_current()) {
    co_return Status::ServiceNotReady(
        fmt::format("namespace {} has moved to other shards; try again", name.ns()));
  }
  co_return co_await topic_shards_[shard.id()]->get(std::move(name), options.create_if_missing);
}

std::shared_ptr<Topic> Broker::loaded_topic(const TopicName& name) {
  Shard& shard = shard_of(name);
  return shard.is_current() ? topic_shards_[shard.id()]->loaded(name) : nullptr;
}

Task<Result<bool>> Broker::topic_exists(TopicName name) {
  if (name.persistent())
    co_return co_await managed_ledger_exists(metadata_, name.managed_ledger_name());
  auto work = [this, name]() -> Task<Result<bool>> { co_return loaded_topic(name) != nullptr; };
  co_return co_await on_shard(shard_of(name), std::move(work));
}

// What the broker does to topics by itself.
static void take_upkeep(const NamespacePolicies& policies, const BrokerConfig& config,
                        TopicSettings& settings) {
  if (config.backlog_quota_check_enabled) {
    const QuotaPolicy usual =
        quota_policy(config.backlog_quota_default_retention_policy).value_or(QuotaPolicy::Hold);
    settings.backlog_size = policies.backlog_size.value_or(
        BacklogQuota{config.backlog_quota_default_limit_bytes, usual});
    settings.backlog_age = policies.backlog_age.value_or(
        BacklogQuota{config.backlog_quota_default_limit_second, usual});
  }
  settings.subscription_expiration_minutes = policies.subscription_expiration_minutes.value_or(
      config.subscription_expiration_time_minutes);
  settings.delete_while_inactive = config.broker_delete_inactive_topics_enabled;
  settings.inactive_if_caught_up =
      config.broker_delete_inactive_topics_mode == "delete_when_subscriptions_caught_up";
  settings.inactive_seconds = config.broker_delete_inactive_topics_max_inactive_duration_seconds;
  if (settings.inactive_seconds == 0)
    settings.inactive_seconds = config.broker_delete_inactive_topics_frequency_seconds;
  if (const auto& own = policies.inactive_topics) {
    settings.delete_while_inactive = own->remove;
    settings.inactive_if_caught_up = own->caught_up_is_enough;
    settings.inactive_seconds = own->seconds;
  }
}

static void take_rates(const NamespacePolicies& policies, const BrokerConfig& config,
                       TopicSettings& settings) {
  const auto rate = [](std::int64_t messages, std::int64_t bytes) {
    Rate out;
    out.messages = static_cast<double>(messages);
    out.bytes = static_cast<double>(bytes);
    return out;
  };
  settings.publish_rate = policies.publish_rate.value_or(rate(
      config.max_publish_rate_per_topic_in_messages, config.max_publish_rate_per_topic_in_bytes));
  settings.dispatch_rate =
      policies.dispatch_rate.value_or(rate(config.dispatch_throttling_rate_per_topic_in_msg,
                                           config.dispatch_throttling_rate_per_topic_in_byte));
  settings.subscription_dispatch_rate = policies.subscription_dispatch_rate.value_or(
      rate(config.dispatch_throttling_rate_per_subscription_in_msg,
           config.dispatch_throttling_rate_per_subscription_in_byte));
  settings.dispatch_rates = policies.dispatch_rates;
  settings.subscribe_rate = config.subscribe_throttling_rate_per_consumer;
  settings.subscribe_period_seconds = config.subscribe_rate_period_per_consumer_in_second;
  if (const auto& own = policies.subscribe_rate) {
    settings.subscribe_rate = own->most;
    settings.subscribe_period_seconds = own->period_seconds;
  }
  settings.max_message_size = policies.max_message_size.value_or(0);
}

Task<Result<TopicSettings>> Broker::topic_settings(TopicName name) {
  const Result<NamespacePolicies> policies = co_await policies_of(name);
  if (!policies) co_return policies.status();
  const NamespacePolicies& of_namespace = *policies;
  const auto live = live_config_.now();
  const BrokerConfig& config = *live;

  TopicSettings settings;
  ManagedLedgerConfig& ledger = settings.ledger;
  ledger.max_entries_per_ledger = config.managed_ledger_max_entries_per_ledger;
  ledger.max_bytes_per_ledger = config.managed_ledger_max_size_per_ledger_mbytes << 20;
  ledger.min_rollover_ms = config.managed_ledger_min_ledger_rollover_time_minutes * 60'000;
  ledger.max_rollover_ms = config.managed_ledger_max_ledger_rollover_time_minutes * 60'000;
  ledger.cursor_flush_ms = config.managed_ledger_cursor_flush_millis;
  ledger.max_acked_ranges_to_persist = config.managed_ledger_max_unacked_ranges_to_persist;
  ledger.max_batch_indexes_to_persist = config.managed_ledger_max_batch_deleted_index_to_persist;
  // As often as the policy lets acknowledgements be stored.
  if (const double rate = of_namespace.max_mark_delete_rate.value_or(0); rate > 0)
    ledger.cursor_flush_ms = static_cast<std::int64_t>(std::clamp(1000.0 / rate, 1.0, 60'000.0));
  const std::int64_t minutes =
      of_namespace.retention_minutes.value_or(config.default_retention_time_in_minutes);
  const std::int64_t mb = of_namespace.retention_mb.value_or(config.default_retention_size_in_mb);
  ledger.retention_ms = minutes < 0 ? -1 : minutes * 60'000;
  ledger.retention_bytes = mb < 0 ? -1 : mb << 20;

  settings.max_unacked_per_consumer =
      of_namespace.max_unacked_per_consumer.value_or(config.max_unacked_messages_per_consumer);
  settings.max_unacked_per_subscription = of_namespace.max_unacked_per_subscription.value_or(
      config.max_unacked_messages_per_subscription);
  // Topics of the broker's own obey none of the limits for users.
  if (!name.is_system()) {
    settings.deduplication =
        of_namespace.deduplication.value_or(config.broker_deduplication_enabled);
    settings.deduplication_snapshot_seconds = of_namespace.deduplication_snapshot_seconds.value_or(
        config.broker_deduplication_snapshot_interval_seconds);
    settings.max_producers =
        of_namespace.max_producers_per_topic.value_or(config.max_producers_per_topic);
    settings.max_consumers =
        of_namespace.max_consumers_per_topic.value_or(config.max_consumers_per_topic);
    settings.max_subscriptions =
        of_namespace.max_subscriptions_per_topic.value_or(config.max_subscriptions_per_topic);
    settings.max_consumers_per_subscription =
        of_namespace.max_consumers_per_subscription.value_or(0);
    settings.encryption_required =
        of_namespace.encryption_required || config.encryption_require_on_producer;
  }
  if (const auto& types = of_namespace.subscription_types_enabled; !types.empty()) {
    for (std::size_t i = 0; i < settings.types_allowed.size(); ++i) {
      const std::string_view type = to_string(static_cast<SubscriptionType>(i));
      settings.types_allowed[i] = std::find(types.begin(), types.end(), type) != types.end();
    }
  }
  auto& key_shared = settings.types_allowed[static_cast<std::size_t>(SubscriptionType::KeyShared)];
  key_shared = key_shared && config.subscription_key_shared_enable;
  settings.auto_subscription_creation =
      of_namespace.auto_subscription_creation.value_or(config.allow_auto_subscription_creation);
  settings.delayed_delivery =
      of_namespace.delayed_delivery.value_or(config.delayed_delivery_enabled);
  settings.max_delivery_delay_ms = of_namespace.max_delivery_delay_ms.value_or(0);
  settings.compaction_threshold = of_namespace.compaction_threshold.value_or(
      config.broker_service_compaction_threshold_in_bytes);
  settings.message_ttl_seconds =
      of_namespace.message_ttl_seconds.value_or(config.ttl_duration_default_in_seconds);
  if (!name.is_system()) {
    take_upkeep(of_namespace, config, settings);
    take_rates(of_namespace, config, settings);
  }
  co_return settings;
}

// The topic's own policies over those of its namespace.
Task<Result<NamespacePolicies>> Broker::policies_of(TopicName name) {
  const auto of_namespace = co_await namespaces_->policies(std::string(name.ns()));
  if (!of_namespace) co_return of_namespace.status();
  NamespacePolicies policies = of_namespace->value_or(NamespacePolicies());
  if (!config_.topic_level_policies_enabled) co_return policies;
  const auto own = co_await metadata_.get(topic_policies_key(name));
  if (!own) co_return own.status();
  if (own->has_value() && !(*own)->value.empty()) {
    GM_CO_RETURN_IF_ERROR(
        overlay_topic_policies(policies, (*own)->value).with_context(topic_policies_key(name)));
  }
  co_return policies;
}

Task<Result<SchemaRules>> Broker::schema_rules(TopicName name) {
  const Result<NamespacePolicies> policies = co_await policies_of(name);
  if (!policies) co_return policies.status();
  const auto live = live_config_.now();
  SchemaRules rules;
  rules.may_add = live->is_allow_auto_update_schema_enabled && policies->allow_auto_update_schema;
  rules.enforced = live->is_schema_validation_enforced || policies->schema_validation_enforced;
  co_return rules;
}

Task<Status> Broker::room_for_topics(TopicName name, std::int64_t more) {
  if (name.is_system()) co_return Status::ok();
  const auto policies = co_await namespaces_->policies(std::string(name.ns()));
  if (!policies) co_return policies.status();
  std::int64_t most = live_config_.now()->max_topics_per_namespace;
  if (policies->has_value()) most = (*policies)->max_topics_per_namespace.value_or(most);
  if (most <= 0) co_return Status::ok();
  const auto topics = co_await list_topics(std::string(name.ns()), true, true, false);
  if (!topics) co_return topics.status();
  if (static_cast<std::int64_t>(topics->size()) + more <= most) co_return Status::ok();
  co_return Status::PreconditionFailed("Exceed maximum number of topics in namespace.");
}

Task<Result<bool>> Broker::namespace_exists(std::string name_space) {
  const auto policies = co_await namespaces_->policies(std::move(name_space));
  if (!policies) co_return policies.status();
  co_return policies->has_value() && !(*policies)->deleted;
}

Task<Result<std::int32_t>> Broker::partition_count(TopicName name) {
  return namespaces_->partition_count(std::move(name));
}

Task<Result<bool>> Broker::auto_creation_allowed(TopicName name) {
  if (live_config_.now()->system_topic_enabled && name.is_system()) co_return true;
  const auto policies = co_await namespaces_->policies(std::string(name.ns()));
  if (!policies) co_return policies.status();
  if (!policies->has_value() || (*policies)->deleted) co_return false;
  if (const auto& of_namespace = (*policies)->auto_topic_creation) co_return of_namespace->allowed;
  co_return live_config_.now()->allow_auto_topic_creation;
}

Task<Result<std::int32_t>> Broker::partition_metadata(TopicName name, bool may_create) {
  const auto policies = co_await namespaces_->policies(std::string(name.ns()));
  if (!policies) co_return policies.status();
  if (!policies->has_value() || (*policies)->deleted)
    co_return Status::TopicNotFound("Namespace not found");
  const TopicName base = name.base();
  const Result<std::int32_t> count = co_await namespaces_->partition_count(base);
  if (!count) co_return count.status();
  if (*count > 0) {
    if (!name.is_partition()) co_return *count;
    if (name.partition_index() < *count) co_return 0;
    co_return Status::TopicNotFound("");
  }
  const Result<bool> exists = co_await topic_exists(name);
  if (!exists) co_return exists.status();
  if (*exists) co_return 0;
  const Result<bool> allowed = co_await auto_creation_allowed(name);
  if (!allowed) co_return allowed.status();
  if (!may_create || !*allowed) co_return Status::TopicNotFound("");

  const auto live = live_config_.now();
  bool partitioned = live->allow_auto_topic_creation_type == "partitioned";
  std::int64_t partitions = live->default_num_partitions;
  if (const auto& of_namespace = (*policies)->auto_topic_creation) {
    partitioned = of_namespace->partitioned;
    partitions = of_namespace->partitions;
  }
  // Topics of retries and dead letters have no partitions of their own.
  const bool of_retries = name.local().ends_with("-DLQ") || name.local().ends_with("-RETRY");
  if (!partitioned || name.is_partition() || name.is_system() || of_retries) co_return 0;
  const Status created =
      co_await create_partitioned_topic(name, static_cast<std::int32_t>(partitions), {});
  // Someone else was faster.
  if (created.is(ErrorCode::Conflict)) co_return co_await namespaces_->partition_count(name);
  if (!created) co_return created;
  co_return static_cast<std::int32_t>(partitions);
}

}  // namespace geminga
