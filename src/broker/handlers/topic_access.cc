#include "broker/handlers/topic_access.h"

#include <fmt/format.h>

#include "broker/broker.h"

namespace geminga {

Result<TopicName> parse_client_topic(const std::string& text) {
  Result<TopicName> name = TopicName::parse(text);
  if (name) return name;
  return Status::InvalidTopicName("Invalid topic name: " + name.status().message());
}

Task<Result<std::shared_ptr<Topic>>> open_topic_for_client(Broker& broker, TopicName name,
                                                           bool may_create) {
  if (auto loaded = broker.loaded_topic(name); loaded != nullptr && !loaded->closing())
    co_return loaded;
  const Result<bool> known = co_await broker.namespace_exists(std::string(name.ns()));
  if (!known) co_return known.status();
  if (!*known) {
    co_return Status::ServiceNotReady(fmt::format(
        "Namespace bundle for topic ({}) not served by this instance. Please redo the lookup. "
        "Request is denied: namespace={}",
        name.full(), name.ns()));
  }
  bool create = false;
  if (name.is_partition()) {
    const Result<std::int32_t> count = co_await broker.partition_count(name.base());
    if (!count) co_return count.status();
    if (*count > 0 && name.partition_index() >= *count) {
      co_return Status::TopicNotFound(fmt::format(
          "Illegal topic partition name {} with max allowed {} partitions", name.full(), *count));
    }
    // A partition of an existing topic is there in principle, even if it has not been needed so
    // far.
    create = *count > 0;
  }
  if (!create && may_create) {
    const Result<bool> allowed = co_await broker.auto_creation_allowed(name);
    if (!allowed) co_return allowed.status();
    create = *allowed;
    if (create) {
      const Result<bool> exists = co_await broker.topic_exists(name);
      if (!exists) co_return exists.status();
      if (!*exists) GM_CO_RETURN_IF_ERROR(co_await broker.room_for_topics(name, 1));
    }
  }
  Broker::TopicOptions options;
  options.create_if_missing = create;
  co_return co_await broker.topic(name, options);
}

}  // namespace geminga
