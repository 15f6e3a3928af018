#include "broker/handlers/schema_access.h"

#include "PulsarApi.pb.h"
#include "broker/broker.h"
#include "broker/call_on.h"

namespace geminga {

Result<std::optional<SchemaData>> schema_of_client(const pulsar::proto::Schema* schema) {
  std::optional<SchemaData> none;
  if (schema == nullptr) return none;
  const std::optional<SchemaType> type = schema_type_from_wire(schema->type());
  if (!type) {
    return Status::IncompatibleSchema("schema type " + std::to_string(schema->type()) +
                                      " is not known to this broker");
  }
  if (*type == SchemaType::AutoConsume) return none;
  SchemaData data;
  data.type = *type;
  data.data = schema->schema_data();
  for (const auto& pair : schema->properties()) data.properties[pair.key()] = pair.value();
  return std::optional<SchemaData>(std::move(data));
}

Task<Result<std::string>> put_schema(Broker& broker, TopicName name, SchemaData schema) {
  const Result<SchemaRules> rules = co_await broker.schema_rules(name);
  if (!rules) co_return rules.status();
  SchemaPutOptions options;
  options.may_add = rules->may_add;
  const Result<Isolation::Hold> hold = broker.isolation().hold(name.ns());
  if (!hold) co_return hold.status();
  const SchemaPlace place = broker.schemas(name);
  auto work = [&registry = place.registry, name, schema = std::move(schema), options]() mutable {
    return registry.put(name.schema_id(), std::move(schema), options);
  };
  const Result<std::int64_t> version = co_await call_on(place.shard, std::move(work));
  if (!version) co_return version.status();
  co_return encode_schema_version(*version);
}

Task<Status> admit_without_schema(Broker& broker, TopicName name) {
  const Result<SchemaRules> rules = co_await broker.schema_rules(name);
  if (!rules) co_return rules.status();
  if (!rules->enforced) co_return Status::ok();
  using Found = Result<std::optional<StoredSchema>>;
  const SchemaPlace place = broker.schemas(name);
  auto work = [&registry = place.registry, name]() -> Task<Found> {
    return registry.latest(name.schema_id());
  };
  const Found latest = co_await call_on(place.shard, std::move(work));
  if (!latest) co_return latest.status();
  if (!latest->has_value()) co_return Status::ok();
  // Programs made for Pulsar look for the name of its exception.
  co_return Status::IncompatibleSchema(
      "org.apache.pulsar.broker.service.schema.exceptions.IncompatibleSchemaException: Producers "
      "cannot connect or send message without a schema to topics with a schema when "
      "SchemaValidationEnforced is enabled");
}

Task<Status> put_consumer_schema(Broker& broker, TopicName name, SchemaData schema, bool idle) {
  using Found = Result<std::optional<StoredSchema>>;
  const SchemaPlace place = broker.schemas(name);
  auto work = [&registry = place.registry, name]() -> Task<Found> {
    return registry.latest(name.schema_id());
  };
  const Found latest = co_await call_on(place.shard, std::move(work));
  if (!latest) co_return latest.status();
  if (latest->has_value()) co_return Status::ok();
  if (!idle) {
    co_return Status::IncompatibleSchema(
        "Failed to add schema to an active topic with empty(BYTES) schema: new schema type " +
        std::string(to_string(schema.type)));
  }
  const Result<std::string> version = co_await put_schema(broker, name, std::move(schema));
  co_return version.status();
}

}  // namespace geminga
