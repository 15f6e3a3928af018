// Schemas as PRODUCER, SUBSCRIBE and the schema commands carry them, to the registry and back.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "broker/topic_name.h"
#include "runtime/task.h"
#include "schema/schema_registry.h"

namespace pulsar::proto {
class Schema;
}

namespace geminga {

class Broker;

// Empty if there is none that the registry would keep: no schema, AUTO_CONSUME. NONE (BYTES) is one
// like any other: the Go client sends it and looks up its version when it reads.
// IncompatibleSchema for a type that is none.
Result<std::optional<SchemaData>> schema_of_client(const pulsar::proto::Schema* schema);

// Stores the schema of a producer if it is new, and gives its version as the protocol writes it.
// Any shard.
Task<Result<std::string>> put_schema(Broker& broker, TopicName name, SchemaData schema);

// A producer without a schema: IncompatibleSchema if the topic has one and the policies demand it.
// Any shard.
Task<Status> admit_without_schema(Broker& broker, TopicName name);

// A consumer's schema: becomes the topic's if that is `idle` (no data, no producers) and has none;
// a topic with data and without a schema refuses it. Any shard.
Task<Status> put_consumer_schema(Broker& broker, TopicName name, SchemaData schema, bool idle);

}  // namespace geminga
