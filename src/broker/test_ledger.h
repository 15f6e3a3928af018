// For tests of subscriptions: entries as clients make them, and a managed ledger in memory with its
// cursor, which serves some entries from "memory" and others only after a while.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/endian.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/async.h"
#include "runtime/shard.h"
#include "wire/message_encoding.h"

namespace geminga::testing {

// An entry as a producer sends it. `extra`: encoded fields of MessageMetadata.
struct EntrySpec {
  std::string producer = "p";
  std::int64_t sequence_id = 0;
  std::int64_t publish_time = 1;
  std::string key = {};
  std::int32_t batch = 0;  // 0: not a batch
  std::int64_t deliver_at = 0;
  std::string extra = {};
  std::string payload = "x";
};

inline Buffer make_test_entry(const EntrySpec& spec) {
  OutgoingMetadata metadata;
  metadata.producer_name = spec.producer;
  metadata.sequence_id = spec.sequence_id;
  metadata.publish_time = spec.publish_time;
  if (!spec.key.empty()) metadata.partition_key = spec.key;
  metadata.num_messages_in_batch = spec.batch;
  metadata.deliver_at_time = spec.deliver_at;
  std::string bytes(4 + encoded_size(metadata), '\0');
  encode(metadata, reinterpret_cast<std::byte*>(bytes.data() + 4));
  bytes += spec.extra;
  store_be32(bytes.data(), static_cast<std::uint32_t>(bytes.size() - 4));
  bytes += spec.payload;
  return Buffer::copy_of(bytes);
}

// The payload of a batch: one message a key, an empty key for none; the payloads are the texts.
inline std::string batch_of(const std::vector<std::string>& keys,
                            const std::vector<std::string>& texts) {
  std::string bytes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    OutgoingSingle single;
    if (!keys[i].empty()) single.partition_key = keys[i];
    single.payload_size = texts[i].size();
    const std::size_t at = bytes.size();
    bytes.resize(at + encoded_size(single));
    encode(single, reinterpret_cast<std::byte*>(bytes.data() + at));
    bytes += texts[i];
  }
  return bytes;
}

inline std::string varint_field(int field, std::uint64_t value) {
  std::string bytes;
  const auto put = [&](std::uint64_t v) {
    for (; v >= 128; v >>= 7) bytes.push_back(static_cast<char>(v | 128));
    bytes.push_back(static_cast<char>(v));
  };
  put(static_cast<std::uint64_t>(field) << 3);
  put(value);
  return bytes;
}
inline std::string chunk_fields(const std::string& uuid, int chunk, int chunks) {
  return "\xd2\x01" + std::string(1, static_cast<char>(uuid.size())) + uuid +
         varint_field(27, static_cast<std::uint64_t>(chunks)) + varint_field(28, 100) +
         varint_field(29, static_cast<std::uint64_t>(chunk));
}

class TestCursor;

// Ledgers of a few entries each, all in memory. With `cold_percent` a part of the reads is not
// served at once.
class TestLedger : public ManagedLedger {
 public:
  explicit TestLedger(Shard& shard, std::int64_t entries_per_ledger = 1'000'000)
      : shard_(shard), entries_per_ledger_(entries_per_ledger) {}

  Position add(const EntrySpec& spec) {
    return add(make_test_entry(spec), static_cast<std::uint32_t>(std::max(spec.batch, 1)));
  }
  Position add(Buffer data, std::uint32_t messages) {
    if (ledgers_.empty() ||
        static_cast<std::int64_t>(ledgers_.rbegin()->second.size()) >= entries_per_ledger_) {
      const LedgerId id = ledgers_.empty() ? 10 : ledgers_.rbegin()->first + 3;
      ledgers_[id];
    }
    auto& [id, entries] = *ledgers_.rbegin();
    entries.push_back({{id, static_cast<EntryId>(entries.size())}, std::move(data), messages});
    total_messages_ += messages;
    return entries.back().position;
  }
  std::vector<Position> positions() const {
    std::vector<Position> all;
    for (const auto& [id, entries] : ledgers_) {
      for (const Entry& entry : entries) all.push_back(entry.position);
    }
    return all;
  }
  const Entry* at(Position p) const {
    const auto it = ledgers_.find(p.ledger);
    if (it == ledgers_.end() || p.entry < 0 || p.entry >= static_cast<EntryId>(it->second.size()))
      return nullptr;
    return &it->second[static_cast<std::size_t>(p.entry)];
  }

  int cold_percent = 0;
  std::optional<Status> read_error;
  std::mt19937_64 random{1};
  int reads_in_flight = 0;
  int reads_done = 0;
  bool ended = false;

  const std::string& name() const override { return name_; }
  const ManagedLedgerConfig& config() const override { return config_; }
  void set_config(const ManagedLedgerConfig& config) override { config_ = config; }
  void append(const Buffer& entry, std::uint32_t messages) override { add(entry, messages); }
  Position last_confirmed() const override {
    if (ledgers_.empty()) return {10, -1};
    const auto& [id, entries] = *ledgers_.rbegin();
    return {id, static_cast<EntryId>(entries.size()) - 1};
  }
  Position first_position() const override {
    return ledgers_.empty() ? Position{10, 0} : Position{ledgers_.begin()->first, 0};
  }
  Position next(Position p) const override { return normalize({p.ledger, p.entry + 1}); }
  Position normalize(Position p) const override {
    if (p < first_position()) return first_position();
    const Position last = last_confirmed();
    if (p > last) return {last.ledger, last.entry + 1};
    for (auto it = ledgers_.lower_bound(p.ledger); it != ledgers_.end(); ++it) {
      const EntryId entry = it->first == p.ledger ? std::max<EntryId>(p.entry, 0) : 0;
      if (entry < static_cast<EntryId>(it->second.size())) return {it->first, entry};
    }
    return {last.ledger, last.entry + 1};
  }
  Position previous(Position p) const override {
    Position best{first_position().ledger, -1};
    for (const auto& [id, entries] : ledgers_) {
      for (const Entry& entry : entries) {
        if (entry.position < p) best = entry.position;
      }
    }
    return best;
  }
  bool exists(Position p) const override { return at(p) != nullptr; }
  std::int64_t entries_between(Position from, Position to) const override {
    std::int64_t n = 0;
    for (const Position p : positions()) n += p > from && p <= to;
    return n;
  }
  std::int64_t total_entries() const override {
    return static_cast<std::int64_t>(positions().size());
  }
  std::int64_t total_messages() const override { return total_messages_; }
  std::int64_t total_bytes() const override { return total_entries() * 100; }
  std::vector<LedgerSummary> ledgers() const override { return {}; }
  std::int64_t entries_added() const override { return total_entries(); }

  void collect(Position from, std::size_t max_entries, std::vector<Entry>& out) const {
    for (Position p = normalize(from); max_entries > 0; p = next(p), --max_entries) {
      const Entry* entry = at(p);
      if (entry == nullptr) return;
      out.push_back(*entry);
    }
  }
  std::size_t read_cached(Position from, std::size_t max_entries, std::size_t,
                          std::vector<Entry>& out) override {
    if (cold_percent > 0 && static_cast<int>(random() % 100) < cold_percent) return 0;
    const std::size_t before = out.size();
    collect(from, max_entries, out);
    return out.size() - before;
  }
  Task<Result<std::vector<Entry>>> read(Position from, std::size_t max_entries,
                                        std::size_t) override {
    ++reads_in_flight;
    for (auto turns = random() % 4 + 1; turns > 0; --turns) co_await sleep_for(Millis{0});
    --reads_in_flight;
    ++reads_done;
    if (read_error) co_return *read_error;
    std::vector<Entry> out;
    collect(from, max_entries, out);
    co_return out;
  }
  Task<Result<Position>> find_first(UniqueFunction<bool(const Entry&)> reached) override {
    co_await sleep_for(Millis{0});
    for (const auto& [id, entries] : ledgers_) {
      for (const Entry& entry : entries) {
        if (reached(entry)) co_return entry.position;
      }
    }
    const Position last = last_confirmed();
    co_return Position{last.ledger, last.entry + 1};
  }
  std::vector<std::shared_ptr<ManagedCursor>> cursors() const override { return {}; }
  std::shared_ptr<ManagedCursor> cursor(const std::string&) const override { return nullptr; }
  Task<Result<std::shared_ptr<ManagedCursor>>> open_cursor(std::string, InitialPosition,
                                                           std::map<std::string, std::string>,
                                                           std::optional<Position>) override {
    co_return Status::Unsupported("not in this double");
  }
  std::shared_ptr<ManagedCursor> new_non_durable_cursor(std::string, Position) override {
    return nullptr;
  }
  void remove_non_durable(const std::shared_ptr<ManagedCursor>&) override {}
  Task<Status> delete_cursor(std::string) override { co_return Status::ok(); }
  Task<Result<Position>> terminate() override {
    ended = true;
    co_return last_confirmed();
  }
  bool terminated() const override { return ended; }
  Position terminated_position() const override { return last_confirmed(); }
  const std::map<std::string, std::string>& properties() const override { return properties_; }
  Task<Status> set_properties(std::map<std::string, std::string>) override {
    co_return Status::ok();
  }
  Task<Status> trim() override { co_return Status::ok(); }
  Task<Status> truncate() override { co_return Status::ok(); }
  Task<Status> rollover() override { co_return Status::ok(); }
  Task<Status> close() override { co_return Status::ok(); }
  Task<Status> remove() override { co_return Status::ok(); }

 private:
  Shard& shard_;
  const std::int64_t entries_per_ledger_;
  std::string name_ = "t/ns/persistent/x";
  ManagedLedgerConfig config_;
  std::map<LedgerId, std::vector<Entry>> ledgers_;
  std::int64_t total_messages_ = 0;
  std::map<std::string, std::string> properties_;
};

class TestCursor final : public ManagedCursor {
 public:
  explicit TestCursor(TestLedger& ledger)
      : ledger_(ledger), mark_delete_{ledger.first_position().ledger, -1} {}

  const std::string& name() const override { return name_; }
  bool durable() const override { return true; }
  Position mark_delete() const override { return mark_delete_; }
  Position first_unacked() const override {
    return next_unacked(ledger_.normalize({mark_delete_.ledger, mark_delete_.entry + 1}));
  }
  bool is_acked(Position p) const override { return p <= mark_delete_ || acked_.contains(p); }
  Position next_unacked(Position from) const override {
    from = ledger_.normalize(from);
    while (ledger_.exists(from) && is_acked(from)) from = ledger_.next(from);
    return from;
  }
  const AckSet* ack_set(Position p) const override {
    const auto it = partly_.find(p);
    return it == partly_.end() ? nullptr : &it->second;
  }
  const RedeliveryCounts& redeliveries() const override { return redeliveries_; }
  void count_redelivery(Position p) override {
    if (!ledger_.exists(p) || is_acked(p)) return;
    if (!redeliveries_.insert(p, 1)) ++*redeliveries_.find(p);
  }
  bool ack(Position p, std::uint32_t) override {
    if (!ledger_.exists(p) || is_acked(p)) return false;
    partly_.erase(p);
    acked_.insert(p);
    advance();
    return true;
  }
  bool ack_partly(Position p, std::span<const std::uint64_t> remaining, std::uint32_t,
                  std::uint32_t* newly) override {
    const Entry* entry = ledger_.at(p);
    if (entry == nullptr || is_acked(p)) return false;
    auto& bits = partly_[p];
    const bool fresh = bits.empty();
    if (bits.empty()) {
      for (std::uint32_t left = entry->messages; left > 0; left -= std::min(left, 64U)) {
        bits.push_back(left >= 64 ? ~0ULL : (1ULL << left) - 1);
      }
    }
    std::uint32_t changed = 0;
    bool any = false;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const std::uint64_t keep = i < remaining.size() ? remaining[i] : 0;
      changed += static_cast<std::uint32_t>(std::popcount(bits[i] & ~keep));
      bits[i] &= keep;
      any |= bits[i] != 0;
    }
    if (newly != nullptr) *newly = changed;
    if (changed == 0 && fresh) partly_.erase(p);
    return any ? false : ack(p, 0);
  }
  void ack_cumulative(Position p) override {
    if (p > ledger_.last_confirmed()) p = ledger_.last_confirmed();
    if (p <= mark_delete_) return;
    mark_delete_ = p;
    advance();
  }
  std::int64_t backlog_entries() const override {
    std::int64_t n = 0;
    for (const Position p : ledger_.positions()) n += !is_acked(p);
    return n;
  }
  std::int64_t backlog_messages() const override {
    if (!exact_backlog) return 0;
    std::int64_t n = 0;
    for (const Position p : ledger_.positions()) {
      if (is_acked(p)) continue;
      const auto it = partly_.find(p);
      if (it == partly_.end()) {
        n += ledger_.at(p)->messages;
      } else {
        for (const std::uint64_t word : it->second) n += std::popcount(word);
      }
    }
    return n;
  }
  std::int64_t backlog_bytes() const override { return backlog_entries() * 100; }
  std::size_t acked_range_count() const override { return acked_.size(); }
  std::int64_t last_active_ms() const override { return 0; }
  void touch() override {}
  Task<Status> reset(Position p) override {
    co_await sleep_for(Millis{1});
    if (reset_error) co_return *reset_error;
    mark_delete_ = ledger_.previous(p == Position::latest() ? p : ledger_.normalize(p));
    acked_.clear();
    partly_.clear();
    redeliveries_.clear();
    co_return Status::ok();
  }
  Task<Status> flush() override { co_return Status::ok(); }
  const std::map<std::string, std::string>& properties() const override { return properties_; }
  Task<Status> set_properties(std::map<std::string, std::string> p) override {
    properties_ = std::move(p);
    co_return Status::ok();
  }
  const std::map<std::string, std::int64_t>& position_properties() const override {
    return numbers_;
  }
  void set_position_properties(std::map<std::string, std::int64_t> p) override {
    numbers_ = std::move(p);
  }
  Task<Status> commit(Position p, std::map<std::string, std::int64_t> numbers) override {
    GM_CO_RETURN_IF_ERROR(co_await reset(ledger_.next(p)));
    numbers_ = std::move(numbers);
    co_return Status::ok();
  }

  std::optional<Status> reset_error;
  bool exact_backlog = true;  // off where a test acknowledges very many

 private:
  void advance() {
    acked_.erase(acked_.begin(), acked_.upper_bound(mark_delete_));
    for (Position p = ledger_.next(mark_delete_); acked_.contains(p); p = ledger_.next(p)) {
      mark_delete_ = p;
      acked_.erase(p);
    }
    std::erase_if(partly_, [this](const auto& item) { return is_acked(item.first); });
    redeliveries_.erase_if([this](Position p, std::uint32_t) { return is_acked(p); });
  }

  TestLedger& ledger_;
  std::string name_ = "s";
  Position mark_delete_;
  std::set<Position> acked_;
  std::map<Position, AckSet> partly_;
  RedeliveryCounts redeliveries_;
  std::map<std::string, std::string> properties_;
  std::map<std::string, std::int64_t> numbers_;
};

}  // namespace geminga::testing
