// Schemas of topics.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "schema/key_value_schema.h"
#include "schema/schema_registry.h"
#include "server/admin/admin.h"

namespace geminga {

namespace json = boost::json;

namespace {

Status no_schema() { return Status::NotFound("Schema not found"); }

// {tenant}/{namespace}/{topic}; the domain does not matter, all partitions share a schema.
Result<TopicName> schema_topic(const HttpRequest& request) {
  auto ns = NamespaceName::of(request.param("tenant"), request.param("namespace"));
  if (!ns) return Status::PreconditionFailed("Topic name is not valid");
  auto name = TopicName::of(TopicDomain::Persistent, *ns, request.param("topic"));
  if (!name) return Status::PreconditionFailed("Topic name is not valid");
  return name;
}

// Runs `work` with the registry of the topic's log, on its shard.
template <typename F>
std::invoke_result_t<F, SchemaRegistry&, std::string> with_registry(Admin& admin, TopicName name,
                                                                    F work) {
  // Some of the work stores: the namespace must stay where it is.
  const Result<Isolation::Hold> hold = admin.broker.isolation().hold(name.ns());
  if (!hold) co_return hold.status();
  const SchemaPlace place = admin.broker.schemas(name);
  auto there = [&registry = place.registry, name,
                work = std::move(work)]() -> std::invoke_result_t<F, SchemaRegistry&, std::string> {
    co_return co_await work(registry, name.schema_id());
  };
  co_return co_await on_shard(place.shard, std::move(there));
}

Result<json::object> schema_json(const StoredSchema& stored) {
  json::object out;
  out["version"] = stored.version;
  out["type"] = json::string(to_string(stored.schema.type));
  out["timestamp"] = stored.timestamp_ms;
  if (stored.schema.type == SchemaType::KeyValue) {
    GM_ASSIGN_OR_RETURN(out["data"], key_value_schema_to_json(stored.schema.data));
  } else {
    out["data"] = stored.schema.data;
  }
  json::object properties;
  for (const auto& [key, value] : stored.schema.properties) properties[key] = value;
  out["properties"] = std::move(properties);
  return out;
}

// {"type", "schema", "properties"}
Result<SchemaData> schema_of(const json::value& body) {
  const json::object* object = body.is_object() ? &body.get_object() : nullptr;
  const json::value* type = object != nullptr ? object->if_contains("type") : nullptr;
  if (type == nullptr || !type->is_string())
    return Status::InvalidArgument("a schema names its type");
  const auto known = parse_schema_type(std::string_view(type->get_string()));
  if (!known || *known == SchemaType::AutoConsume) {
    return Status::Unknown(
        fmt::format("No enum constant org.apache.pulsar.common.schema.SchemaType.{}",
                    std::string_view(type->get_string())));
  }
  SchemaData schema;
  schema.type = *known;
  if (const json::value* text = object->if_contains("schema")) {
    if (text->is_string()) schema.data = std::string(text->get_string());
  }
  if (schema.type == SchemaType::KeyValue) {
    GM_ASSIGN_OR_RETURN(schema.data, key_value_schema_from_json(schema.data));
  }
  if (const json::value* properties = object->if_contains("properties"); properties != nullptr) {
    if (properties->is_object()) {
      for (const auto& member : properties->get_object()) {
        if (member.value().is_string()) {
          schema.properties[std::string(member.key())] = std::string(member.value().get_string());
        }
      }
    }
  }
  return schema;
}

// The body's schema, or what to answer instead.
struct Given {
  SchemaData schema;
  std::optional<HttpResponse> refusal;
};
Given given_schema(const HttpRequest& request) {
  Given given;
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) {
    given.refusal = std::move(body.refusal);
    return given;
  }
  auto schema = schema_of(body.value);
  if (schema) {
    given.schema = std::move(*schema);
  } else {
    given.refusal = refusal_of(schema.status());
  }
  return given;
}

Answer get_version(Admin& admin, HttpRequest& request, std::optional<std::int64_t> version) {
  auto name = schema_topic(request);
  if (!name) co_return name.status();
  auto work = [version](SchemaRegistry& registry, std::string id) {
    return registry.get(std::move(id), version);
  };
  auto stored = co_await with_registry(admin, *name, std::move(work));
  if (!stored) co_return stored.status();
  if (!stored->has_value()) co_return no_schema();
  auto out = schema_json(**stored);
  if (!out) co_return out.status();
  co_return json_answer(*out);
}

Answer get_latest(Admin& admin, HttpRequest& request) {
  return get_version(admin, request, std::nullopt);
}

Answer get_one(Admin& admin, HttpRequest& request) {
  HttpRequest reader;
  reader.query.emplace_back("n", request.param("version"));
  const auto version = reader.query_number("n");
  if (!version) co_return server_page(request, 404);
  co_return co_await get_version(admin, request, *version);
}

Answer get_all(Admin& admin, HttpRequest& request) {
  auto name = schema_topic(request);
  if (!name) co_return name.status();
  auto all = co_await with_registry(admin, *name, [](SchemaRegistry& registry, std::string id) {
    return registry.all(std::move(id));
  });
  if (!all) co_return all.status();
  json::array list;
  for (const StoredSchema& stored : *all) {
    if (stored.deleted) {  // what was before a deletion is not shown
      list.clear();
      continue;
    }
    auto one = schema_json(stored);
    if (!one) co_return one.status();
    list.push_back(std::move(*one));
  }
  json::object out;
  out["getSchemaResponses"] = std::move(list);
  co_return json_answer(out);
}

HttpResponse refused_schema(const HttpRequest& request, const Status& status) {
  const bool broken = status.message().starts_with("Invalid schema definition");
  HttpResponse page = server_page(request, broken ? 422 : 409, status.message());
  return page;
}

Answer put(Admin& admin, HttpRequest& request) {
  auto name = schema_topic(request);
  if (!name) co_return name.status();
  Given given = given_schema(request);
  if (given.refusal) co_return std::move(*given.refusal);
  Status found = co_await require_namespace(admin, name->namespace_name());
  if (!found) co_return found;
  SchemaData schema = std::move(given.schema);
  auto work = [schema](SchemaRegistry& registry, std::string id) {
    return registry.put(std::move(id), schema);
  };
  auto version = co_await with_registry(admin, *name, std::move(work));
  if (version.is(ErrorCode::IncompatibleSchema))
    co_return refused_schema(request, version.status());
  if (!version) co_return version.status();
  co_return json_text(fmt::format(R"({{"version":{{"version":{}}}}})", *version));
}

Answer remove(Admin& admin, HttpRequest& request) {
  auto name = schema_topic(request);
  if (!name) co_return name.status();
  const bool force = request.query_flag("force", false);
  auto work = [force](SchemaRegistry& registry, std::string id) {
    return registry.remove(std::move(id), force);
  };
  auto version = co_await with_registry(admin, *name, std::move(work));
  if (!version) co_return version.status();
  co_return json_text(fmt::format(R"({{"version":{}}})", *version));
}

Answer version_of(Admin& admin, HttpRequest& request) {
  auto name = schema_topic(request);
  if (!name) co_return name.status();
  Given given = given_schema(request);
  if (given.refusal) co_return std::move(*given.refusal);
  SchemaData schema = std::move(given.schema);
  auto work = [schema](SchemaRegistry& registry, std::string id) {
    return registry.find(std::move(id), schema);
  };
  auto version = co_await with_registry(admin, *name, std::move(work));
  if (!version) co_return version.status();
  co_return json_text(fmt::format(R"({{"version":{}}})", version->value_or(-1)));
}

// Without rules for evolution only the clear cases can be decided: nothing there yet, the same
// schema, another type.
Answer compatibility(Admin& admin, HttpRequest& request) {
  auto name = schema_topic(request);
  if (!name) co_return name.status();
  Given given = given_schema(request);
  if (given.refusal) co_return std::move(*given.refusal);
  SchemaData schema = std::move(given.schema);
  auto latest = co_await with_registry(admin, *name, [](SchemaRegistry& registry, std::string id) {
    return registry.latest(std::move(id));
  });
  if (!latest) co_return latest.status();
  bool compatible = !latest->has_value();
  if (!compatible) {
    auto work = [schema](SchemaRegistry& registry, std::string id) {
      return registry.find(std::move(id), schema);
    };
    auto version = co_await with_registry(admin, *name, std::move(work));
    if (!version) co_return version.status();
    compatible = version->has_value();
  }
  if (!compatible && (*latest)->schema.type != schema.type) {
    co_return reason(500,
                     fmt::format("Incompatible schema: exists schema type {}, new schema type {}",
                                 to_string((*latest)->schema.type), to_string(schema.type)));
  }
  if (!compatible) {
    co_return Status::Unsupported(
        "the check of two differing schema definitions is not available in Geminga yet");
  }
  co_return json_text(R"({"schemaCompatibilityStrategy":"FULL","compatibility":true})", 202);
}

Answer metadata(Admin& admin, HttpRequest& request) {
  auto name = schema_topic(request);
  if (!name) co_return name.status();
  auto ledgers = co_await with_registry(admin, *name, [](SchemaRegistry& registry, std::string id) {
    return registry.ledgers(std::move(id));
  });
  if (!ledgers) co_return ledgers.status();
  if (ledgers->empty()) co_return no_schema();
  json::array index;
  for (const auto& ledger : *ledgers) {
    json::object entry;
    entry["ledgerId"] = ledger.ledger;
    entry["entryId"] = 0;
    entry["version"] = ledger.version;
    index.push_back(std::move(entry));
  }
  json::object out;
  out["info"] = index.back();
  out["index"] = std::move(index);
  co_return json_answer(out);
}

#define GM_SCHEMA "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_SCHEMA "/schema", "The newest schema of a topic", get_latest},
    {HttpMethod::Get, GM_SCHEMA "/schema/{version}", "A version of a topic's schema", get_one},
    {HttpMethod::Get, GM_SCHEMA "/schemas", "All versions of a topic's schema", get_all},
    {HttpMethod::Post, GM_SCHEMA "/schema", "Register a schema", put},
    {HttpMethod::Delete, GM_SCHEMA "/schema", "Delete a topic's schema", remove},
    {HttpMethod::Post, GM_SCHEMA "/version", "The version of a schema", version_of},
    {HttpMethod::Post, GM_SCHEMA "/compatibility", "Whether a schema could be registered",
     compatibility},
    {HttpMethod::Get, GM_SCHEMA "/metadata", "Where the versions are stored", metadata},
};

}  // namespace

void add_schema_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
