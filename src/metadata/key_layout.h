// The keys and records in which the RocksDB store keeps the tree; byte by byte in
// docs/format/metadata.md.
//
// A node's key is its parent's path, a zero byte and its own name, so that the children of a path
// lie side by side and everything below it in two ranges. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "metadata/metadata_store.h"

namespace geminga::metadata_keys {

constexpr std::size_t kMaxPath = 8192;
constexpr std::size_t kMaxValue = 16 << 20;

constexpr std::string_view kFormatKey = "mformat";
constexpr std::string_view kFormat = "1";
constexpr char kEphemeralPrefix = 'e';

// InvalidArgument that names what is wrong. "/" passes.
Status check_path(std::string_view path);
// "" for "/" and for children of the root.
std::string_view parent_of(std::string_view path);
std::string_view name_of(std::string_view path);

std::string node_key(std::string_view path);
std::string node_path(std::string_view key);  // of a node key
// Keys of the direct children are those that start with this; of all deeper nodes, with the second.
std::string children_prefix(std::string_view path);
std::string deeper_prefix(std::string_view path);
std::string counters_key(std::string_view path);
std::string ephemeral_key(std::string_view path);

struct NodeRecord {
  // Exists because of its children only; they take it along when the last goes.
  bool container = false;
  MetadataStat stat;
  std::string value;
};
std::string encode(const NodeRecord& node);
// Corruption for bytes that encode() does not write.
Result<NodeRecord> decode_node(std::string_view path, std::string_view bytes);

struct Counters {
  std::uint64_t children = 0;
  std::uint64_t next_sequence = 0;  // survives its node, so that it never goes back
};
std::string encode(const Counters& counters);
Result<Counters> decode_counters(std::string_view path, std::string_view bytes);

}  // namespace geminga::metadata_keys
