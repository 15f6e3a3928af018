// Names of topics and namespaces, with Pulsar's grammar.
//
// A topic is `domain://tenant/namespace/local`. Short forms `local` and `tenant/namespace/local`
// mean persistent (and tenant public, namespace default). Legacy v1 names have a cluster,
// `domain://tenant/cluster/namespace/local`, and are the only ones whose local part may hold a '/'.
// `B-partition-3` (canonical decimal) is partition 3 of B. The strict parsers accept and refuse
// what Pulsar does, with its texts; parse_lenient() is our extension for what people type into our
// own tools. A name that exists is valid. Values, one string each, hash computed once; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace geminga {

enum class TopicDomain : std::uint8_t { Persistent, NonPersistent };
std::string_view to_string(TopicDomain domain);  // "persistent", "non-persistent"

// May `name` be that of a tenant, namespace, cluster (Java's NamedEntity: [-=:.\w]*, not empty)?
bool is_valid_entity_name(std::string_view name);

class NamespaceName {
 public:
  // "tenant/namespace" or v1 "tenant/cluster/namespace"; InvalidArgument otherwise.
  static Result<NamespaceName> parse(std::string_view text);
  static Result<NamespaceName> of(std::string_view tenant, std::string_view local);

  const std::string& full() const { return full_; }  // "tenant/namespace"
  std::string_view tenant() const { return std::string_view(full_).substr(0, tenant_size_); }
  std::string_view local() const { return std::string_view(full_).substr(local_at_); }
  bool is_v1() const { return local_at_ != tenant_size_ + 1; }
  std::string_view cluster() const;  // "" unless v1
  // Names of the old form need not be created, save those of cluster "global".
  bool exists_by_itself() const { return is_v1() && cluster() != "global"; }

  friend bool operator==(const NamespaceName& a, const NamespaceName& b) {
    return a.full_ == b.full_;
  }
  friend auto operator<=>(const NamespaceName& a, const NamespaceName& b) {
    return a.full_ <=> b.full_;
  }

 private:
  NamespaceName(std::string full, std::size_t tenant_size, std::size_t local_at)
      : full_(std::move(full)), tenant_size_(tenant_size), local_at_(local_at) {}
  std::string full_;
  std::size_t tenant_size_;
  std::size_t local_at_;
};

class TopicName {
 public:
  // InvalidTopicName with Pulsar's text. What clients and Pulsar's tools send.
  static Result<TopicName> parse(std::string_view text);
  // As parse(), and a name of two parts, with or without a domain, is `public/namespace/local`.
  static Result<TopicName> parse_lenient(std::string_view text);
  // From the parts of a REST path; `local` decoded already.
  static Result<TopicName> of(TopicDomain domain, const NamespaceName& ns, std::string_view local);

  const std::string& full() const { return full_; }  // "persistent://tenant/namespace/local"
  TopicDomain domain() const { return domain_; }
  bool persistent() const { return domain_ == TopicDomain::Persistent; }
  std::string_view tenant() const { return slice(tenant_at_, tenant_end_); }
  std::string_view ns() const { return slice(tenant_at_, local_at_ - 1); }  // "tenant/namespace"
  NamespaceName namespace_name() const;
  std::string_view local() const { return slice(local_at_, full_.size()); }
  bool is_v1() const { return v1_; }

  // -1: not a partition.
  std::int32_t partition_index() const { return partition_; }
  bool is_partition() const { return partition_ >= 0; }
  // The partitioned topic that this is a partition of; itself if it is none.
  TopicName base() const;
  std::string base_full() const { return std::string(slice(0, base_end_)); }
  std::string_view base_local() const { return slice(local_at_, base_end_); }
  // Partition `index` (not negative) of this topic.
  TopicName partition(std::int32_t index) const;

  std::string encoded_local() const;
  // "tenant/namespace/persistent/ENC": the managed ledger, and the paths made of it.
  std::string managed_ledger_name() const;
  // "tenant/namespace/ENC of the base": all partitions share one schema.
  std::string schema_id() const;

  // Topics of Pulsar's own (topic policies, transactions): never deleted for inactivity, not
  // listed.
  bool is_system() const;
  // Logs and names of the broker's transactions: managed ledgers or nothing, never topics.
  bool is_transaction_log() const;
  // CRC-32 (zlib) of the full name: places the topic in a namespace bundle.
  std::uint32_t bundle_hash() const { return hash_; }

  friend bool operator==(const TopicName& a, const TopicName& b) {
    return a.hash_ == b.hash_ && a.full_ == b.full_;
  }
  friend auto operator<=>(const TopicName& a, const TopicName& b) { return a.full_ <=> b.full_; }

 private:
  TopicName() = default;
  static Result<TopicName> parse_complete(std::string_view text, bool lenient);
  std::string_view slice(std::size_t from, std::size_t to) const {
    return std::string_view(full_).substr(from, to - from);
  }
  void find_partition();
  void finish();

  std::string full_;
  std::uint32_t tenant_at_ = 0;
  std::uint32_t tenant_end_ = 0;
  std::uint32_t local_at_ = 0;
  std::uint32_t base_end_ = 0;
  std::uint32_t hash_ = 0;
  std::int32_t partition_ = -1;
  TopicDomain domain_ = TopicDomain::Persistent;
  bool v1_ = false;
};

}  // namespace geminga

template <>
struct std::hash<geminga::TopicName> {
  std::size_t operator()(const geminga::TopicName& name) const noexcept {
    return name.bundle_hash();
  }
};
template <>
struct std::hash<geminga::NamespaceName> {
  std::size_t operator()(const geminga::NamespaceName& name) const noexcept {
    return std::hash<std::string>()(name.full());
  }
};
