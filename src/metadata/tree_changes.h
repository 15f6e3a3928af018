// The rules of the tree, applied to a group of writes that will reach the disk together.
//
// Reads see the changes made so far on top of what is stored. Each operation either applies as a
// whole or leaves no trace. The store writes changes() in one batch and then publishes events().
// Used on the store's writer thread; knows nothing about RocksDB but the keys.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metadata/key_layout.h"
#include "metadata/metadata_store.h"

namespace geminga {

class TreeChanges {
 public:
  // What is stored under a key of key_layout.h; empty if nothing.
  using Stored = UniqueFunction<Result<std::optional<std::string>>(const std::string& key)>;
  using Map = std::map<std::string, std::optional<std::string>>;  // empty: delete

  explicit TreeChanges(Stored stored) : stored_(std::move(stored)) {}

  // Semantics as MetadataStore's calls. `now_ms` stamps what is written.
  Result<MetadataPutResult> put(std::string path, std::string_view value,
                                const MetadataPut& options, std::int64_t now_ms);
  Status remove(const std::string& path, std::optional<std::int64_t> expected_version,
                std::int64_t now_ms);
  Status commit(const std::vector<MetadataOp>& ops, std::int64_t now_ms);

  const Map& changes() const { return changes_; }
  const std::vector<MetadataEvent>& events() const { return events_; }
  std::size_t bytes() const { return bytes_; }  // about what changes() holds
  void clear();

 private:
  struct Undo {
    std::string key;
    bool had = false;
    std::optional<std::string> value;
  };

  Status put_one(const std::string& path, std::string_view value, const MetadataPut& options,
                 std::int64_t now_ms, MetadataPutResult* result);
  Status remove_one(const std::string& path, std::optional<std::int64_t> expected_version,
                    std::int64_t now_ms);
  Status add_child(std::string_view parent, std::int64_t now_ms);
  Status drop_child(std::string_view parent);
  Result<std::optional<metadata_keys::NodeRecord>> node(const std::string& path);
  Result<metadata_keys::Counters> counters(const std::string& path);
  void set_counters(const std::string& path, const metadata_keys::Counters& counters);
  Result<std::optional<std::string>> read(const std::string& key);
  void write(std::string key, std::optional<std::string> value);
  void event(MetadataEvent::Kind kind, std::string path) {
    events_.push_back({kind, std::move(path)});
  }
  Status end_operation(Status status, std::size_t events_before);

  Stored stored_;
  Map changes_;
  std::vector<MetadataEvent> events_;
  std::vector<Undo> undo_;  // of the operation under way
  std::size_t bytes_ = 0;
};

}  // namespace geminga
