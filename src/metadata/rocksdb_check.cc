#include <fmt/format.h>
#include <rocksdb/db.h>

#include <map>
#include <memory>

#include "metadata/folder_inventory.h"
#include "metadata/key_layout.h"
#include "metadata/rocksdb_folder.h"
#include "metadata/rocksdb_store.h"

namespace geminga {

namespace {

constexpr std::size_t kMaxProblems = 100;

class Check {
 public:
  Check(std::string path, std::string keep) : path_(std::move(path)), keep_(std::move(keep)) {}

  Result<MetadataReport> run() {
    const Status whole = verify_inventory(path_);
    if (!whole) problem(whole.message());
    rocksdb::Options options;
    options.paranoid_checks = true;
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, path_, &opened);
    const std::unique_ptr<rocksdb::DB> db(opened);
    if (status.IsCorruption()) {
      problem(status.ToString());
      return std::move(report_);
    }
    GM_RETURN_IF_ERROR(from_rocksdb(status, path_, "opening"));
    rocksdb::ReadOptions read;
    read.verify_checksums = true;
    read.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(read));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      record(at->key().ToStringView(), at->value().ToStringView());
    }
    if (!at->status().ok()) problem(at->status().ToString());
    for (const auto& [parent, count] : children_) {
      if (count != 0)
        problem(fmt::format("'{}' is off by {} in its number of children", parent, count));
    }
    return std::move(report_);
  }

 private:
  void record(std::string_view key, std::string_view value) {
    report_.bytes += key.size() + value.size();
    if (key[0] == 'n') {
      ++report_.keys;
      const std::string node = metadata_keys::node_path(key);
      const auto decoded = metadata_keys::decode_node(node, value);
      if (!decoded.is_ok()) problem(decoded.status().message());
      if (decoded.is_ok() && !keep_.empty() && metadata_keys::parent_of(node) == keep_)
        report_.kept.emplace_back(node, decoded->value);
      ++children_[std::string(metadata_keys::parent_of(node))];
    } else if (key[0] == 'c') {
      const std::string node(key.substr(1));
      const auto decoded = metadata_keys::decode_counters(node, value);
      if (!decoded.is_ok()) {
        problem(decoded.status().message());
      } else {
        children_[node] -= static_cast<std::int64_t>(decoded->children);
      }
    } else if (key[0] != metadata_keys::kEphemeralPrefix && key != metadata_keys::kFormatKey) {
      problem(fmt::format("a key of unknown kind, {} bytes long", key.size()));
    }
  }
  void problem(std::string text) {
    if (report_.problems.size() < kMaxProblems) report_.problems.push_back(std::move(text));
  }

  const std::string path_;
  const std::string keep_;
  MetadataReport report_;
  std::map<std::string, std::int64_t> children_;  // found minus counted
};

}  // namespace

Result<MetadataReport> check_rocksdb_store(const std::string& path, const std::string& keep) {
  return Check(path, keep).run();
}

}  // namespace geminga
