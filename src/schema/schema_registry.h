// The schemas of topics, by schema id ("tenant/namespace/ENC", one for all partitions), in versions
// 0, 1, 2, ...
//
// Stored as Pulsar stores them: the node /schemas/<schema id> is a SchemaLocator (list of versions,
// each with the SHA-256 of its data and where it is), and every version is entry 0 of a ledger of
// its own. A deletion is a version as well (an empty one that is marked deleted); versions up to it
// count no more for put() and find(), but can still be read by number: messages written with them
// must stay readable.
//
// One registry a log, on the log's shard (Broker::schemas() tells which); all
// members are called there. Errors: IncompatibleSchema (refused), and what the two stores answer.
// Nothing is kept of a failed call: a ledger that lost the race for the locator is removed again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/position.h"
#include "base/status.h"
#include "runtime/async.h"
#include "runtime/task.h"
#include "schema/schema_type.h"

namespace geminga {

class LedgerStore;
class MetadataStore;

struct SchemaData {
  SchemaType type = SchemaType::None;
  std::string
      data;  // JSON, AVRO, PROTOBUF: an Avro schema in JSON; KEY_VALUE: see key_value_schema.h
  std::map<std::string, std::string> properties;
};

struct StoredSchema {
  SchemaData schema;
  std::int64_t version = 0;
  std::int64_t timestamp_ms = 0;
  bool deleted = false;  // only all() gives deleted ones back
};

struct SchemaPutOptions {
  // False (policy isAllowAutoUpdateSchema): a schema that is not there yet is refused with
  // IncompatibleSchema.
  bool may_add = true;
  // True (strategy ALWAYS_COMPATIBLE): a schema of another type than the newest one is let in too.
  bool may_change_type = false;
  std::string user;
};

// The 8 bytes (big-endian) that stand for a version in the protocol; "" means none.
std::string encode_schema_version(std::int64_t version);
// Empty unless `bytes` has exactly 8 bytes.
std::optional<std::int64_t> decode_schema_version(std::string_view bytes);

class SchemaRegistry {
 public:
  // `metadata` and `ledgers` outlive the registry.
  SchemaRegistry(MetadataStore& metadata, LedgerStore& ledgers);
  ~SchemaRegistry();
  SchemaRegistry(const SchemaRegistry&) = delete;
  SchemaRegistry& operator=(const SchemaRegistry&) = delete;

  // The version of this schema, adding it if it is not there. Registering the same schema again,
  // also from many callers at once, yields one version. IncompatibleSchema if its definition is
  // broken.
  Task<Result<std::int64_t>> put(std::string schema_id, SchemaData schema,
                                 SchemaPutOptions options);
  // With the defaults. (No default argument: GCC 12 destroys such a temporary twice in an awaited
  // call.)
  Task<Result<std::int64_t>> put(std::string schema_id, SchemaData schema) {
    return put(std::move(schema_id), std::move(schema), SchemaPutOptions());
  }
  // The version of this schema if it is there.
  Task<Result<std::optional<std::int64_t>>> find(std::string schema_id, SchemaData schema);
  // A version, or the newest. Empty: there is none, or it was deleted.
  Task<Result<std::optional<StoredSchema>>> get(std::string schema_id,
                                                std::optional<std::int64_t> version);
  Task<Result<std::optional<StoredSchema>>> latest(std::string schema_id);
  // Every version, ascending; deletions are among them, marked.
  Task<Result<std::vector<StoredSchema>>> all(std::string schema_id);
  // Marks the schema deleted (also one that is not there, as Pulsar does) and gives the version of
  // that mark. With `force` all versions vanish with their ledgers, numbering starts again at 0,
  // and -1 is given.
  Task<Result<std::int64_t>> remove(std::string schema_id, bool force);

  // Where the versions are, for a topic's internal stats.
  struct VersionLedger {
    std::int64_t version = 0;
    LedgerId ledger = -1;
  };
  Task<Result<std::vector<VersionLedger>>> ledgers(std::string schema_id);

 private:
  struct Versions;  // a locator and the version of its node

  Task<Result<std::shared_ptr<Versions>>> load(std::string schema_id);
  Task<Result<std::shared_ptr<const StoredSchema>>> read(std::int64_t version, Position at);
  Task<Result<std::optional<std::int64_t>>> find_in(std::shared_ptr<Versions> versions,
                                                    SchemaData schema);
  // Adds one version. BadVersion if someone else wrote the locator since load() (nothing stays).
  Task<Result<std::int64_t>> append(std::string schema_id, std::shared_ptr<Versions> versions,
                                    StoredSchema schema, std::string user);
  Task<AsyncMutex::Lock> turn(std::string schema_id);
  void remember(LedgerId ledger, std::shared_ptr<const StoredSchema> schema);

  MetadataStore& metadata_;
  LedgerStore& ledgers_;

  // Decoded versions, by ledger (a version never changes, and a ledger is never used for another),
  // least recently used first out.
  struct Cached {
    LedgerId ledger;
    std::shared_ptr<const StoredSchema> schema;
    std::size_t bytes;
  };
  std::list<Cached> cache_;  // newest use first
  std::unordered_map<LedgerId, std::list<Cached>::iterator> cached_;
  std::size_t cached_bytes_ = 0;
  // Writers of one schema take turns, so that a burst of producers does not fight over the node.
  std::array<AsyncMutex, 64> turns_;
};

}  // namespace geminga
