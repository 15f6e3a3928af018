// What shows of a topic's compaction as a subscription, as in Pulsar: `__compaction` in lists and
// statistics, with its backlog and the number that names the compacted data. Nobody can consume
// from it or move it; deleting it ends the compacted topic. Owned by the topic, on its shard.
#pragma once

#include <memory>
#include <string>

#include "broker/subscription.h"
#include "broker/topic_compaction.h"

namespace geminga {

std::shared_ptr<Subscription> make_compaction_subscription(const TopicCompaction& compaction,
                                                           std::shared_ptr<ManagedCursor> cursor);

}  // namespace geminga
