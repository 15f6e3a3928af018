// How a client's PRODUCER or SUBSCRIBE gets at its topic.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "broker/topic.h"
#include "broker/topic_name.h"
#include "runtime/task.h"

namespace geminga {

class Broker;

// TopicName::parse with the text that clients get for their own mistakes.
Result<TopicName> parse_client_topic(const std::string& text);

// The topic, loaded, and created if `may_create` and the policies allow it. On the topic's shard.
// Errors: ServiceNotReady (unknown namespace), TopicNotFound, and what loading brings.
Task<Result<std::shared_ptr<Topic>>> open_topic_for_client(Broker& broker, TopicName name,
                                                           bool may_create);

}  // namespace geminga
