#include "schema/schema_registry.h"

#include <SchemaRegistryFormat.pb.h>
#include <SchemaStorageFormat.pb.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/endian.h"
#include "base/log.h"
#include "base/sha256.h"
#include "ledger/ledger_store.h"
#include "metadata/metadata_store.h"

namespace geminga {

namespace storage = pulsar::schema::storage;
using pulsar::schema::info::SchemaInfo;

struct SchemaRegistry::Versions {
  storage::SchemaLocator locator;
  std::int64_t node_version = -1;  // -1: there is no node
};

namespace {

constexpr std::size_t kCacheBytes = 4 << 20;
// A locator is one metadata value (1 MiB at most) of about 60 bytes a version.
constexpr int kMaxVersions = 10'000;
constexpr std::size_t kMaxSchemaBytes = 1 << 20;
// Every lost race means that another broker succeeded, so this is never reached unless something is
// broken.
constexpr int kMaxRaces = 100;

std::string node_of(const std::string& schema_id) { return "/schemas/" + schema_id; }

std::size_t cost_of(const StoredSchema& stored) {
  std::size_t bytes = 256 + stored.schema.data.size();
  for (const auto& [key, value] : stored.schema.properties) bytes += 96 + key.size() + value.size();
  return bytes;
}

Result<boost::json::value> parse_definition(const SchemaData& schema) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(schema.data, error);
  if (error || !(value.is_object() || value.is_array() || value.is_string())) {
    return Status::IncompatibleSchema("Invalid schema definition data for " +
                                      std::string(to_string(schema.type)) + " schema");
  }
  return value;
}

// Two JSON texts of the same definition (white space, order of members) are one schema.
bool same_definition(const boost::json::value& wanted, const SchemaData& stored) {
  auto definition = parse_definition(stored);
  return definition.is_ok() && *definition == wanted;
}

std::string encode_entry(const std::string& schema_id, const StoredSchema& stored,
                         const std::string& user, const storage::SchemaLocator& before) {
  SchemaInfo info;
  info.set_schema_id(schema_id);
  info.set_user(user);
  info.set_type(static_cast<SchemaInfo::SchemaType>(stored_schema_type(stored.schema.type)));
  info.set_schema(stored.schema.data);
  info.set_timestamp(stored.timestamp_ms);
  info.set_deleted(stored.deleted);
  for (const auto& [key, value] : stored.schema.properties) {
    auto* pair = info.add_props();
    pair->set_key(key);
    pair->set_value(value);
  }
  storage::SchemaEntry entry;
  entry.set_schema_data(info.SerializeAsString());
  *entry.mutable_index() = before.index();
  if (before.index().empty()) {  // Pulsar writes a dummy here, and its reader expects one
    auto* dummy = entry.add_index();
    dummy->set_version(0);
    dummy->set_hash("");
    dummy->mutable_position()->set_ledgerid(-1);
    dummy->mutable_position()->set_entryid(-1);
  }
  return entry.SerializeAsString();
}

Result<StoredSchema> decode_entry(const Buffer& bytes, std::int64_t version, LedgerId ledger) {
  const auto corrupt = [&](const char* what) {
    return Status::Corruption("schema version " + std::to_string(version) + " in ledger " +
                              std::to_string(ledger) + ": " + what);
  };
  storage::SchemaEntry entry;
  if (!entry.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return corrupt("the entry is no SchemaEntry");
  }
  SchemaInfo info;
  if (!info.ParseFromString(entry.schema_data())) return corrupt("it holds no SchemaInfo");
  const auto type = schema_type_from_stored(info.type());
  if (!type) return corrupt("unknown schema type");
  StoredSchema stored;
  stored.schema.type = *type;
  stored.schema.data = info.schema();
  for (const auto& pair : info.props()) stored.schema.properties[pair.key()] = pair.value();
  stored.version = version;
  stored.timestamp_ms = info.timestamp();
  stored.deleted = info.deleted();
  return stored;
}

Position position_of(const storage::IndexEntry& entry) {
  return {entry.position().ledgerid(), entry.position().entryid()};
}

// Waits for the one append of a ledger.
class OneAppend final : public AppendSink {
 public:
  void append_done(LedgerId, EntryId, const Status& status) override {
    status_ = status;
    done_.set();
  }
  Task<Status> wait() {
    co_await done_.wait();
    co_return status_;
  }

 private:
  Event done_;
  Status status_;
};

}  // namespace

std::string encode_schema_version(std::int64_t version) {
  std::string bytes(8, '\0');
  store_be64(bytes.data(), static_cast<std::uint64_t>(version));
  return bytes;
}

std::optional<std::int64_t> decode_schema_version(std::string_view bytes) {
  if (bytes.size() != 8) return std::nullopt;
  return static_cast<std::int64_t>(load_be64(bytes.data()));
}

SchemaRegistry::SchemaRegistry(MetadataStore& metadata, LedgerStore& ledgers)
    : metadata_(metadata), ledgers_(ledgers) {}
SchemaRegistry::~SchemaRegistry() = default;

Task<AsyncMutex::Lock> SchemaRegistry::turn(std::string schema_id) {
  co_return co_await turns_[std::hash<std::string>()(schema_id) % turns_.size()].lock();
}

Task<Result<std::shared_ptr<SchemaRegistry::Versions>>> SchemaRegistry::load(
    std::string schema_id) {
  auto versions = std::make_shared<Versions>();
  auto node = co_await metadata_.get(node_of(schema_id));
  if (!node) co_return node.status();
  if (node->has_value() && !(*node)->value.empty()) {
    if (!versions->locator.ParseFromString((*node)->value)) {
      co_return Status::Corruption("the node " + node_of(schema_id) + " holds no SchemaLocator");
    }
  }
  if (node->has_value()) versions->node_version = (*node)->stat.version;
  co_return versions;
}

Task<Result<std::shared_ptr<const StoredSchema>>> SchemaRegistry::read(std::int64_t version,
                                                                       Position at) {
  if (const auto found = cached_.find(at.ledger); found != cached_.end()) {
    cache_.splice(cache_.begin(), cache_, found->second);
    co_return found->second->schema;
  }
  auto ledger = co_await ledgers_.open(at.ledger);
  if (!ledger) co_return ledger.status();
  auto entries = co_await (*ledger)->read(at.entry, 1, kMaxSchemaBytes);
  if (!entries) co_return entries.status();
  if (entries->empty()) {
    co_return Status::Corruption("schema version " + std::to_string(version) + ": ledger " +
                                 std::to_string(at.ledger) + " is empty");
  }
  auto stored = decode_entry(entries->front().data, version, at.ledger);
  if (!stored) co_return stored.status();
  auto shared = std::make_shared<const StoredSchema>(std::move(*stored));
  remember(at.ledger, shared);
  co_return shared;
}

void SchemaRegistry::remember(LedgerId ledger, std::shared_ptr<const StoredSchema> schema) {
  if (cached_.contains(ledger)) return;  // read twice at the same time
  const std::size_t bytes = cost_of(*schema);
  cache_.push_front({ledger, std::move(schema), bytes});
  cached_[ledger] = cache_.begin();
  cached_bytes_ += bytes;
  while (cached_bytes_ > kCacheBytes && cache_.size() > 1) {
    cached_bytes_ -= cache_.back().bytes;
    cached_.erase(cache_.back().ledger);
    cache_.pop_back();
  }
}

Task<Result<std::optional<std::int64_t>>> SchemaRegistry::find_in(
    std::shared_ptr<Versions> versions, SchemaData schema) {
  const std::string hash = sha256(schema.data);
  std::optional<boost::json::value> definition;
  if (is_avro_defined(schema.type)) {
    auto parsed = parse_definition(schema);
    if (parsed) definition = std::move(*parsed);
  }
  const auto& index = versions->locator.index();
  for (int i = index.size() - 1; i >= 0; --i) {
    const auto& entry = index[i];
    if (entry.hash().empty()) break;  // a deletion; nothing before it counts
    const bool same_hash = entry.hash() == hash;
    if (!same_hash && !definition) continue;
    auto stored = co_await read(entry.version(), position_of(entry));
    if (!stored) co_return stored.status();
    const SchemaData& candidate = (*stored)->schema;
    if (candidate.type != schema.type) continue;
    if (same_hash || same_definition(*definition, candidate)) co_return entry.version();
  }
  co_return std::nullopt;
}

Task<Result<std::int64_t>> SchemaRegistry::append(std::string schema_id,
                                                  std::shared_ptr<Versions> versions,
                                                  StoredSchema stored, std::string user) {
  storage::SchemaLocator& locator = versions->locator;
  if (locator.index_size() >= kMaxVersions) {
    co_return Status::NotAllowed("schema " + schema_id + " has " + std::to_string(kMaxVersions) +
                                 " versions; delete it with force to start anew");
  }
  stored.version = locator.index_size() == 0 ? 0 : locator.info().version() + 1;
  stored.timestamp_ms = now_ms();
  const std::string bytes = encode_entry(schema_id, stored, user, locator);

  std::map<std::string, std::string> ledger_metadata;
  ledger_metadata["application"] = "pulsar";
  ledger_metadata["component"] = "schema";
  ledger_metadata["pulsar/schemaId"] = schema_id;
  auto ledger = co_await ledgers_.create(std::move(ledger_metadata));
  if (!ledger) co_return ledger.status();
  const LedgerId id = (*ledger)->id();

  OneAppend written;
  Status status;
  auto appended = (*ledger)->append(Buffer::copy_of(bytes), 1, &written);
  if (appended) {
    status = co_await written.wait();
    if (status) status = co_await (*ledger)->seal();
  } else {
    status = appended.status();
  }
  if (status) {
    auto* entry = locator.add_index();
    entry->set_version(stored.version);
    entry->mutable_position()->set_ledgerid(id);
    entry->mutable_position()->set_entryid(*appended);
    entry->set_hash(stored.deleted ? std::string() : sha256(stored.schema.data));
    *locator.mutable_info() = *entry;
    MetadataPut options;
    options.expected_version = versions->node_version;
    auto put =
        co_await metadata_.put(node_of(schema_id), locator.SerializeAsString(), std::move(options));
    status = put.status();
  }
  if (!status) {
    // Whoever refers to nothing may be removed; a failure here leaves an orphan that the next
    // start's check of ledgers finds.
    if (Status removed = co_await ledgers_.remove(id); !removed) {
      GM_LOG_WARN("schema {}: ledger {} of a failed registration stays: {}", schema_id, id,
                  removed.to_string());
    }
    co_return status;
  }
  const std::int64_t version = stored.version;
  remember(id, std::make_shared<const StoredSchema>(std::move(stored)));
  co_return version;
}

Task<Result<std::int64_t>> SchemaRegistry::put(std::string schema_id, SchemaData schema,
                                               SchemaPutOptions options) {
  if (schema.data.size() > kMaxSchemaBytes) {
    co_return Status::IncompatibleSchema("the schema definition has " +
                                         std::to_string(schema.data.size()) + " bytes, more than " +
                                         std::to_string(kMaxSchemaBytes));
  }
  if (schema.type == SchemaType::Json || schema.type == SchemaType::Avro) {
    auto definition = parse_definition(schema);
    if (!definition) co_return definition.status();
  }
  auto lock = co_await turn(schema_id);
  for (int race = 0; race < kMaxRaces; ++race) {
    auto versions = co_await load(schema_id);
    if (!versions) co_return versions.status();
    auto found = co_await find_in(*versions, schema);
    if (!found) co_return found.status();
    if (found->has_value()) co_return **found;
    const auto& index = (*versions)->locator.index();
    if (!options.may_change_type && !index.empty() && !index[index.size() - 1].hash().empty()) {
      const auto& newest = index[index.size() - 1];
      auto stored = co_await read(newest.version(), position_of(newest));
      if (!stored) co_return stored.status();
      if ((*stored)->schema.type != schema.type) {
        co_return Status::IncompatibleSchema("Incompatible schema: exists schema type " +
                                             std::string(to_string((*stored)->schema.type)) +
                                             ", new schema type " +
                                             std::string(to_string(schema.type)));
      }
    }
    if (!options.may_add) {
      co_return Status::IncompatibleSchema(
          "Schema not found and schema auto updating is disabled.");
    }
    StoredSchema stored;
    stored.schema = schema;
    auto added = co_await append(schema_id, std::move(*versions), std::move(stored), options.user);
    if (!added.is(ErrorCode::BadVersion)) co_return added;
  }
  co_return Status::Conflict("schema " + schema_id + ": too many other writers; try again");
}

Task<Result<std::optional<std::int64_t>>> SchemaRegistry::find(std::string schema_id,
                                                               SchemaData schema) {
  auto versions = co_await load(schema_id);
  if (!versions) co_return versions.status();
  co_return co_await find_in(std::move(*versions), std::move(schema));
}

Task<Result<std::optional<StoredSchema>>> SchemaRegistry::get(std::string schema_id,
                                                              std::optional<std::int64_t> version) {
  auto versions = co_await load(schema_id);
  if (!versions) co_return versions.status();
  const auto& index = (*versions)->locator.index();
  if (index.empty()) co_return std::nullopt;
  const storage::IndexEntry* entry = &index[index.size() - 1];
  if (version) {
    const auto found = std::lower_bound(
        index.begin(), index.end(), *version,
        [](const storage::IndexEntry& e, std::int64_t v) { return e.version() < v; });
    if (found == index.end() || found->version() != *version) co_return std::nullopt;
    // What was before a deletion is gone; deletions have no hash.
    if (std::any_of(found, index.end(), [](const auto& e) { return e.hash().empty(); }))
      co_return std::nullopt;
    entry = &*found;
  }
  auto stored = co_await read(entry->version(), position_of(*entry));
  if (!stored) co_return stored.status();
  if ((*stored)->deleted) co_return std::nullopt;
  co_return **stored;
}

Task<Result<std::optional<StoredSchema>>> SchemaRegistry::latest(std::string schema_id) {
  co_return co_await get(std::move(schema_id), std::nullopt);
}

Task<Result<std::vector<StoredSchema>>> SchemaRegistry::all(std::string schema_id) {
  auto versions = co_await load(schema_id);
  if (!versions) co_return versions.status();
  std::vector<StoredSchema> out;
  for (const auto& entry : (*versions)->locator.index()) {
    auto stored = co_await read(entry.version(), position_of(entry));
    if (!stored) co_return stored.status();
    out.push_back(**stored);
  }
  co_return out;
}

Task<Result<std::int64_t>> SchemaRegistry::remove(std::string schema_id, bool force) {
  auto lock = co_await turn(schema_id);
  for (int race = 0; race < kMaxRaces; ++race) {
    auto versions = co_await load(schema_id);
    if (!versions) co_return versions.status();
    if (!force) {
      StoredSchema mark;
      mark.deleted = true;
      auto added = co_await append(schema_id, std::move(*versions), std::move(mark), std::string());
      if (!added.is(ErrorCode::BadVersion)) co_return added;
      continue;
    }
    const std::int64_t node_version = (*versions)->node_version;
    if (node_version < 0) co_return -1;
    Status removed = co_await metadata_.remove(node_of(schema_id), node_version);
    if (removed.is(ErrorCode::BadVersion)) continue;
    if (!removed && !removed.is(ErrorCode::NotFound)) co_return removed;
    for (const auto& entry : (*versions)->locator.index()) {
      const LedgerId ledger = entry.position().ledgerid();
      if (const auto found = cached_.find(ledger); found != cached_.end()) {
        cached_bytes_ -= found->second->bytes;
        cache_.erase(found->second);
        cached_.erase(found);
      }
      if (Status gone = co_await ledgers_.remove(ledger); !gone) {
        GM_LOG_WARN("schema {}: ledger {} stays after deletion: {}", schema_id, ledger,
                    gone.to_string());
      }
    }
    co_return -1;
  }
  co_return Status::Conflict("schema " + schema_id + ": too many other writers; try again");
}

Task<Result<std::vector<SchemaRegistry::VersionLedger>>> SchemaRegistry::ledgers(
    std::string schema_id) {
  auto versions = co_await load(schema_id);
  if (!versions) co_return versions.status();
  std::vector<VersionLedger> out;
  for (const auto& entry : (*versions)->locator.index()) {
    out.push_back({entry.version(), entry.position().ledgerid()});
  }
  co_return out;
}

}  // namespace geminga
