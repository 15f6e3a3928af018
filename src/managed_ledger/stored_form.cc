#include "managed_ledger/stored_form.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/url_encoding.h"
#include "managed_ledger/stored_compression.h"

namespace geminga {

namespace {

template <typename Info>
Result<Info> parse_value(std::string_view value, std::string_view path) {
  std::string plain;
  if (is_compressed_value(value)) {
    GM_ASSIGN_OR_RETURN(plain, uncompress_value(value, path));
    value = plain;
  }
  Info info;
  if (!info.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Status::Corruption("the value of " + std::string(path) + " (" +
                              std::to_string(value.size()) + " bytes) is no " + info.GetTypeName());
  }
  return info;
}

// PositionInfo and ManagedCursorInfo name these parts alike.
template <typename Info>
void put_ranges(const CursorState& state, Info* info) {
  for (const auto& [ledger, set] : state.acked()) {
    set.for_each_range([&, id = ledger](EntryId first, EntryId last) {
      auto* range = info->add_individualdeletedmessages();
      range->mutable_lowerendpoint()->set_ledgerid(id);
      range->mutable_lowerendpoint()->set_entryid(first - 1);
      range->mutable_upperendpoint()->set_ledgerid(id);
      range->mutable_upperendpoint()->set_entryid(last);
      return true;
    });
  }
}

template <typename Info>
void put_redeliveries(const CursorState& state, Info* info) {
  pulsar::ml::RedeliveryCounts* list = nullptr;
  EntryId before = -1;
  state.redeliveries().for_each([&](Position position, std::uint32_t count) {
    if (list == nullptr || list->ledgerid() != position.ledger) {
      list = info->add_gemingaredeliveries();
      list->set_ledgerid(position.ledger);
      before = -1;
    }
    list->add_steps(static_cast<std::uint64_t>(position.entry - before));
    list->add_counts(count);
    before = position.entry;
  });
}

template <typename Info>
void load_redeliveries(const Info& info, CursorState& state) {
  for (const auto& list : info.gemingaredeliveries()) {
    EntryId entry = -1;
    for (int i = 0; i < list.steps_size() && i < list.counts_size(); ++i) {
      const std::uint64_t step = list.steps(i);
      constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<EntryId>::max() / 2);
      if (step > kMost || static_cast<std::uint64_t>(entry + 1) > kMost) break;
      entry += static_cast<EntryId>(step);
      state.restore_redeliveries({list.ledgerid(), entry}, list.counts(i));
    }
  }
}

template <typename Info>
bool put_batches(const CursorState& state, std::int64_t limit, Info* info) {
  for (const auto& [position, partial] : state.partials()) {
    if (limit-- <= 0) return false;
    auto* batch = info->add_batchedentrydeletionindexinfo();
    batch->mutable_position()->set_ledgerid(position.ledger);
    batch->mutable_position()->set_entryid(position.entry);
    for (const std::uint64_t word : partial.remaining)
      batch->add_deleteset(static_cast<std::int64_t>(word));
  }
  return true;
}

bool put_bit_sets(const CursorState& state, std::int64_t max_bytes,
                  pulsar::ml::PositionInfo* info) {
  std::int64_t bytes = 0;
  for (const auto& [ledger, set] : state.acked()) {
    const std::int64_t words = set.largest() / 64 + 1;
    bytes += words * 11;  // a tag and the longest varint
    if (bytes > max_bytes) return false;
    std::vector<std::uint64_t> bits(static_cast<std::size_t>(words));
    set.for_each_range([&](EntryId first, EntryId last) {
      for (EntryId e = first; e <= last; ++e)
        bits[static_cast<std::size_t>(e / 64)] |= std::uint64_t{1} << (e % 64);
      return true;
    });
    auto* list = info->add_individualdeletedmessageranges();
    list->set_key(ledger);
    for (const std::uint64_t word : bits) list->add_values(static_cast<std::int64_t>(word));
  }
  return true;
}

template <typename Info>
void load_acks(const Info& info, CursorState& state) {
  for (const auto& range : info.individualdeletedmessages()) {
    const auto& lower = range.lowerendpoint();
    const auto& upper = range.upperendpoint();
    if (lower.ledgerid() == upper.ledgerid()) {
      state.restore_range(lower.ledgerid(), lower.entryid() + 1, upper.entryid());
    } else if (lower.ledgerid() < upper.ledgerid()) {
      state.restore_span({lower.ledgerid(), lower.entryid() + 1},
                         {upper.ledgerid(), upper.entryid()});
    }
  }
  for (const auto& batch : info.batchedentrydeletionindexinfo()) {
    AckSet remaining;
    for (const std::int64_t word : batch.deleteset())
      remaining.push_back(static_cast<std::uint64_t>(word));
    state.restore_partial({batch.position().ledgerid(), batch.position().entryid()},
                          std::move(remaining));
  }
}

void load_bit_sets(const pulsar::ml::PositionInfo& info, CursorState& state) {
  for (const auto& list : info.individualdeletedmessageranges()) {
    EntryId run = -1;  // where the current run of ones began
    EntryId at = 0;
    for (const std::int64_t value : list.values()) {
      const auto word = static_cast<std::uint64_t>(value);
      for (int bit = 0; bit < 64; ++bit, ++at) {
        const bool acked = (word >> bit & 1) != 0;
        if (acked && run < 0) run = at;
        if (!acked && run >= 0) {
          state.restore_range(list.key(), run, at - 1);
          run = -1;
        }
      }
    }
    if (run >= 0) state.restore_range(list.key(), run, at - 1);
  }
}

template <typename Info>
void load_properties(const Info& info, PositionProperties& properties) {
  properties.clear();
  for (const auto& property : info.properties()) properties[property.name()] = property.value();
}

template <typename Info>
void put_properties(const PositionProperties& properties, Info* info) {
  for (const auto& [name, value] : properties) {
    auto* property = info->add_properties();
    property->set_name(name);
    property->set_value(value);
  }
}

template <typename Info>
std::optional<std::int64_t> acked_messages(const Info& info) {
  if (!info.has_gemingaackedmessages()) return std::nullopt;
  return info.gemingaackedmessages();
}

}  // namespace

std::string managed_ledger_path(std::string_view name) {
  return "/managed-ledgers/" + std::string(name);
}

std::string cursor_path(std::string_view name, std::string_view cursor) {
  return managed_ledger_path(name) + "/" + url_encode(cursor);
}

Result<pulsar::ml::ManagedLedgerInfo> parse_ledger_info(std::string_view value,
                                                        std::string_view path) {
  return parse_value<pulsar::ml::ManagedLedgerInfo>(value, path);
}

Result<pulsar::ml::ManagedCursorInfo> parse_cursor_info(std::string_view value,
                                                        std::string_view path) {
  return parse_value<pulsar::ml::ManagedCursorInfo>(value, path);
}

std::string encode_position_info(const CursorState& state, const PositionProperties& properties,
                                 const StoredStateLimits& limits, bool* complete) {
  google::protobuf::Arena arena;
  auto* info = google::protobuf::Arena::CreateMessage<pulsar::ml::PositionInfo>(&arena);
  info->set_ledgerid(state.mark_delete().ledger);
  info->set_entryid(state.mark_delete().entry);
  *complete = true;
  if (static_cast<std::int64_t>(state.acked_range_count()) <= limits.max_ranges) {
    put_ranges(state, info);
  } else if (!put_bit_sets(state, limits.max_bytes, info)) {
    *complete = false;
  }
  put_properties(properties, info);
  put_redeliveries(state, info);
  if (!put_batches(state, limits.max_batch_indexes, info)) *complete = false;
  // The number stands for the whole state; beside a part of it it would be wrong.
  if (const auto acked = state.stored_acked_messages(); acked && *complete) {
    info->set_gemingaackedmessages(*acked);
  }
  return info->SerializeAsString();
}

Status decode_position_info(std::string_view bytes, CursorState& state,
                            PositionProperties& properties) {
  google::protobuf::Arena arena;
  auto* info = google::protobuf::Arena::CreateMessage<pulsar::ml::PositionInfo>(&arena);
  if (!info->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status::Corruption("an entry of " + std::to_string(bytes.size()) +
                              " bytes in a cursor's ledger is no PositionInfo");
  }
  state.restore({info->ledgerid(), info->entryid()});
  load_bit_sets(*info, state);
  load_acks(*info, state);
  load_properties(*info, properties);
  load_redeliveries(*info, state);
  state.restored(acked_messages(*info));
  return Status::ok();
}

void put_state(const CursorState& state, const PositionProperties& properties, bool with_acks,
               pulsar::ml::ManagedCursorInfo* info) {
  info->set_markdeleteledgerid(state.mark_delete().ledger);
  info->set_markdeleteentryid(state.mark_delete().entry);
  info->clear_individualdeletedmessages();
  info->clear_batchedentrydeletionindexinfo();
  info->clear_properties();
  info->clear_gemingaackedmessages();
  info->clear_gemingaredeliveries();
  put_properties(properties, info);
  if (!with_acks) return;
  put_ranges(state, info);
  put_batches(state, std::numeric_limits<std::int64_t>::max(), info);
  if (state.redeliveries().size() <= kMaxRedeliveriesInKey) put_redeliveries(state, info);
  if (const auto acked = state.stored_acked_messages()) info->set_gemingaackedmessages(*acked);
}

void load_state(const pulsar::ml::ManagedCursorInfo& info, CursorState& state,
                PositionProperties& properties) {
  state.restore({info.markdeleteledgerid(), info.markdeleteentryid()});
  load_acks(info, state);
  load_properties(info, properties);
  load_redeliveries(info, state);
  state.restored(acked_messages(info));
}

}  // namespace geminga
