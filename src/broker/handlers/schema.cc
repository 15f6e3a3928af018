// GET_SCHEMA and GET_OR_CREATE_SCHEMA (wire-protocol §10). Both answer failures in their own
// response type.
#include "broker/broker.h"
#include "broker/call_on.h"
#include "broker/handlers/handlers.h"
#include "broker/handlers/schema_access.h"
#include "broker/handlers/topic_access.h"

namespace geminga {

namespace {

using pulsar::proto::BaseCommand;

template <typename Response>
void fail(Response& response, ErrorCode code, const std::string& message) {
  const ErrorInfo& info = error_info(code);
  response.set_error_code(static_cast<pulsar::proto::ServerError>(info.wire_code));
  response.set_error_message(message.empty() ? std::string(info.text) : message);
}

using Found = Result<std::optional<StoredSchema>>;

Task<Found> find(Broker* broker, TopicName name, std::optional<std::int64_t> version) {
  const SchemaPlace place = broker->schemas(name);
  auto work = [&registry = place.registry, name, version]() -> Task<Found> {
    return registry.get(name.schema_id(), version);
  };
  co_return co_await call_on(place.shard, std::move(work));
}

}  // namespace

Task<void> handle_get_schema(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.getschema();
  BaseCommand answer;
  answer.set_type(BaseCommand::GET_SCHEMA_RESPONSE);
  auto& response = *answer.mutable_getschemaresponse();
  response.set_request_id(request.request_id());
  const Result<TopicName> name = parse_client_topic(request.topic());
  std::optional<std::int64_t> version;
  if (request.has_schema_version()) version = decode_schema_version(request.schema_version());
  if (!name) {
    fail(response, name.code(), name.status().message());
  } else if (request.has_schema_version() && !version) {
    fail(response, ErrorCode::IncompatibleSchema, "Empty schema version");
  } else {
    const Found found = co_await find(&session->broker(), *name, version);
    if (!found) {
      fail(response, found.code(), found.status().message());
    } else if (!found->has_value()) {
      fail(response, ErrorCode::TopicNotFound, "Topic not found or no-schema");
    } else {
      const StoredSchema& stored = **found;
      response.set_schema_version(encode_schema_version(stored.version));
      auto& schema = *response.mutable_schema();
      schema.set_name(name->schema_id());
      schema.set_type(static_cast<pulsar::proto::Schema::Type>(stored.schema.type));
      schema.set_schema_data(stored.schema.data);
      for (const auto& [key, value] : stored.schema.properties) {
        auto& pair = *schema.add_properties();
        pair.set_key(key);
        pair.set_value(value);
      }
    }
  }
  session->reply(answer);
}

Task<void> handle_get_or_create_schema(std::shared_ptr<Session> session, BaseCommand command) {
  const auto& request = command.getorcreateschema();
  BaseCommand answer;
  answer.set_type(BaseCommand::GET_OR_CREATE_SCHEMA_RESPONSE);
  auto& response = *answer.mutable_getorcreateschemaresponse();
  response.set_request_id(request.request_id());
  const Result<TopicName> name = parse_client_topic(request.topic());
  Result<std::optional<SchemaData>> schema = schema_of_client(&request.schema());
  if (!name) {
    fail(response, name.code(), name.status().message());
  } else if (!schema) {
    fail(response, schema.code(), schema.status().message());
  } else if (!schema->has_value() || (*schema)->type == SchemaType::None) {
    response.set_schema_version("");
  } else {
    const Result<std::string> version =
        co_await put_schema(session->broker(), *name, std::move(**schema));
    if (version) {
      response.set_schema_version(*version);
    } else {
      fail(response, version.code(), version.status().message());
    }
  }
  session->reply(answer);
}

}  // namespace geminga
