#include "broker/compacted_ledger.h"

#include <algorithm>

#include "base/endian.h"
#include "broker/compaction_entry.h"
#include "wire/protobuf_fields.h"

namespace geminga {

namespace {

// Entries before a place that a read may have to pass over, when a reader took only a part of what
// it got last; more than that are looked up.
constexpr std::size_t kPassedOver = 256;
// How far publish times may be out of order.
constexpr EntryId kNeighbours = 64;

std::uint64_t wide(std::int64_t value) { return static_cast<std::uint64_t>(value); }

Status damaged(LedgerId ledger, const Status& why) {
  return why.with_context("compacted ledger " + std::to_string(ledger));
}

}  // namespace

Buffer encode_compacted_entry(Position position, std::int32_t partition,
                              std::span<const std::byte> entry) {
  const std::uint64_t of_partition = wide(partition);
  const std::size_t id_size = varint_field_size(wide(position.ledger)) +
                              varint_field_size(wide(position.entry)) +
                              varint_field_size(of_partition);
  const std::size_t size = 4 + id_size + 4 + entry.size();
  Block* block = Block::allocate(size);
  std::byte* to = block->data();
  store_be32(to, static_cast<std::uint32_t>(id_size));
  to = put_varint_field(to + 4, 1, wide(position.ledger));
  to = put_varint_field(to, 2, wide(position.entry));
  to = put_varint_field(to, 3, of_partition);
  store_be32(to, static_cast<std::uint32_t>(entry.size()));
  std::copy(entry.begin(), entry.end(), to + 4);
  return Buffer::adopt(block, 0, size);
}

Result<Entry> decode_compacted_entry(const Buffer& stored) {
  const auto broken = [&stored] {
    return Status::Corruption("an entry of " + std::to_string(stored.size()) +
                              " bytes is no message id with a message");
  };
  const std::span<const std::byte> bytes = stored.span();
  if (bytes.size() < 8) return broken();
  const std::size_t id_size = load_be32(bytes.data());
  if (id_size > bytes.size() - 8) return broken();
  Entry entry;
  bool has_ledger = false;
  bool has_entry = false;
  FieldReader fields(bytes.subspan(4, id_size));
  while (fields.next()) {
    if (fields.tag() == varint_tag(1)) {
      entry.position.ledger = fields.signed_value();
      has_ledger = true;
    } else if (fields.tag() == varint_tag(2)) {
      entry.position.entry = fields.signed_value();
      has_entry = true;
    }
  }
  if (!fields.ok() || !has_ledger || !has_entry) return broken();
  const std::size_t size = load_be32(bytes.data() + 4 + id_size);
  if (size != bytes.size() - 8 - id_size) return broken();
  entry.data = stored.slice(8 + id_size, size);
  return entry;
}

Task<Result<std::shared_ptr<CompactedLedger>>> CompactedLedger::open(LedgerStore* store,
                                                                     LedgerId id,
                                                                     Position horizon) {
  auto ledger = co_await store->open(id);
  if (!ledger) co_return ledger.status();
  co_return co_await of(std::move(*ledger), horizon);
}

Task<Result<std::shared_ptr<CompactedLedger>>> CompactedLedger::of(std::shared_ptr<Ledger> ledger,
                                                                   Position horizon) {
  auto made = std::make_shared<CompactedLedger>(std::move(ledger), horizon);
  GM_CO_RETURN_IF_ERROR(co_await made->learn_ends());
  co_return made;
}

Task<Status> CompactedLedger::learn_ends() {
  if (entries() == 0) co_return Status::ok();
  auto first = co_await entry_at(0);
  if (!first) co_return first.status();
  first_ = first->position;
  auto last = co_await entry_at(entries() - 1);
  if (!last) co_return last.status();
  CompactionEntry content;
  content.read(last->data.span());
  last_.position = last->position;
  last_.batch_index = content.last_batch_index();
  co_return Status::ok();
}

Task<Result<Entry>> CompactedLedger::entry_at(EntryId index) {
  auto entries = co_await read_at(index, 1, 1);
  if (!entries) co_return entries.status();
  if (entries->empty()) {
    co_return damaged(id(), Status::Corruption("entry " + std::to_string(index) + " is missing"));
  }
  co_return std::move(entries->front());
}

Task<Result<std::vector<Entry>>> CompactedLedger::read_at(EntryId first, std::size_t max_entries,
                                                          std::size_t max_bytes) {
  std::vector<LedgerEntry> stored;
  if (ledger_->read_cached(first, max_entries, max_bytes, stored) == 0) {
    auto read = co_await ledger_->read(first, max_entries, max_bytes);
    if (!read) co_return read.status();
    stored = std::move(*read);
  }
  std::vector<Entry> entries;
  Place place;
  GM_CO_RETURN_IF_ERROR(take(stored, Position{}, place, entries));
  co_return entries;
}

Status CompactedLedger::take(std::vector<LedgerEntry>& stored, Position from, Place& place,
                             std::vector<Entry>& out) const {
  bool first = true;
  for (LedgerEntry& at : stored) {
    auto entry = decode_compacted_entry(at.data);
    if (!entry) return damaged(id(), entry.status());
    if (entry->position < from) continue;
    if (first) place = {id(), at.id, from};
    first = false;
    // A ledger that a Java broker wrote does not count messages.
    entry->messages = at.messages;
    if (entry->messages == 0) {
      const auto metadata = parse_entry_metadata(entry->data.span());
      const std::int32_t messages = metadata ? metadata->num_messages : 1;
      entry->messages = static_cast<std::uint32_t>(std::max(messages, 1));
    }
    out.push_back(std::move(*entry));
  }
  return Status::ok();
}

Task<Result<EntryId>> CompactedLedger::index_of(Position from) {
  EntryId low = 0;
  EntryId high = entries();
  while (low < high) {
    const EntryId middle = low + (high - low) / 2;
    auto entry = co_await entry_at(middle);
    if (!entry) co_return entry.status();
    if (entry->position < from) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  co_return low;
}

std::size_t CompactedLedger::read_cached(Position from, Place& place, std::size_t max_entries,
                                         std::size_t max_bytes, std::vector<Entry>& out) {
  if (place.ledger != id() || place.from > from) {
    if (from.ledger >= 0) return 0;
    place = {id(), 0, from};
  }
  // What was read last may not have been used up: it is passed over, or looked up by read().
  std::vector<LedgerEntry> stored;
  const std::size_t before = out.size();
  for (std::size_t passed = 0; passed <= kPassedOver && out.size() == before;) {
    stored.clear();
    const EntryId index = place.index + static_cast<EntryId>(passed);
    if (index >= entries()) return 0;
    if (ledger_->read_cached(index, max_entries, max_bytes, stored) == 0) return 0;
    passed += stored.size();
    if (!take(stored, from, place, out)) {
      out.resize(before);
      return 0;  // read() tells what is wrong
    }
  }
  return out.size() - before;
}

Task<Result<std::vector<Entry>>> CompactedLedger::read(Position from, Place* place,
                                                       std::size_t max_entries,
                                                       std::size_t max_bytes) {
  std::vector<Entry> out;
  if (!reaches(from)) co_return out;
  EntryId index = 0;
  if (place->ledger == id() && place->from <= from) {
    index = place->index;
  } else if (from.ledger >= 0) {
    GM_CO_ASSIGN_OR_RETURN(index, co_await index_of(from));
  }
  for (std::size_t passed = 0; out.empty() && index < entries();) {
    if (passed > kPassedOver) {
      GM_CO_ASSIGN_OR_RETURN(index, co_await index_of(from));
      passed = 0;
    }
    auto stored = co_await ledger_->read(index, max_entries, max_bytes);
    if (!stored) co_return stored.status();
    index += static_cast<EntryId>(stored->size());
    passed += stored->size();
    GM_CO_RETURN_IF_ERROR(take(*stored, from, *place, out));
  }
  co_return out;
}

Task<Result<std::optional<Position>>> CompactedLedger::first_published_at(std::int64_t time_ms) {
  std::optional<Position> found;
  EntryId low = 0;
  EntryId high = entries();
  while (low < high) {
    const EntryId middle = low + (high - low) / 2;
    auto entry = co_await entry_at(middle);
    if (!entry) co_return entry.status();
    const auto metadata = parse_entry_metadata(entry->data.span());
    if (metadata && metadata->timestamp() >= time_ms) {
      found = entry->position;
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const EntryId first = std::max<EntryId>(low - kNeighbours, 0);
  for (EntryId at = first; at < low; ++at) {
    auto entry = co_await entry_at(at);
    if (!entry) co_return entry.status();
    const auto metadata = parse_entry_metadata(entry->data.span());
    if (metadata && metadata->timestamp() >= time_ms) co_return std::optional(entry->position);
  }
  co_return found;
}

}  // namespace geminga
