#include "managed_ledger/cursor_store.h"

#include <algorithm>

#include "base/log.h"
#include "managed_ledger/await_append.h"

namespace geminga {

namespace {

// A cursor's ledger is replaced when it holds so many states, or so many bytes and a few states: it
// is the unit in which superseded states are freed.
constexpr std::int64_t kMaxEntries = 50'000;
constexpr std::int64_t kMaxBytes = 1 << 20;
constexpr std::int64_t kMinStates = 16;
// Ranges and partly acknowledged batches that a key may hold
// (managedLedgerMaxUnackedRangesToPersistInMetadataStore).
constexpr std::size_t kMaxHolesInKey = 1000;
constexpr LedgerId kInKey = -1;

bool acks_fit_in_key(const CursorState& state) {
  return state.acked_range_count() + state.partials().size() <= kMaxHolesInKey;
}

void put_cursor_properties(const CursorStore::Properties& properties,
                           pulsar::ml::ManagedCursorInfo* info) {
  info->clear_cursorproperties();
  for (const auto& [name, value] : properties) {
    auto* property = info->add_cursorproperties();
    property->set_name(name);
    property->set_value(value);
  }
}

}  // namespace

CursorStore::CursorStore(ManagedLedgerEnv env, std::string ledger_name, std::string cursor_name)
    : env_(env),
      ledger_name_(std::move(ledger_name)),
      cursor_name_(std::move(cursor_name)),
      path_(cursor_path(ledger_name_, cursor_name_)) {
  info_.set_cursorsledgerid(kInKey);
}

Task<Status> CursorStore::put(pulsar::ml::ManagedCursorInfo info) {
  auto result =
      co_await env_.metadata->put(path_, info.SerializeAsString(), {.expected_version = version_});
  if (result.is(ErrorCode::BadVersion)) {
    co_return Status::Fenced("another broker has written " + path_ +
                             "; close the topic and look it up again");
  }
  if (!result) co_return result.status();
  version_ = result->stat.version;
  info_ = std::move(info);
  co_return Status::ok();
}

Task<Status> CursorStore::create(const CursorState& state, Properties properties,
                                 std::int64_t last_active_ms) {
  auto existing = co_await env_.metadata->get(path_);
  if (!existing) co_return existing.status();
  version_ = *existing ? (*existing)->stat.version : -1;
  pulsar::ml::ManagedCursorInfo info;
  info.set_cursorsledgerid(kInKey);
  info.set_lastactive(last_active_ms);
  put_state(state, {}, true, &info);
  put_cursor_properties(properties, &info);
  const Status status = co_await put(std::move(info));
  if (status) properties_ = std::move(properties);
  co_return status;
}

Task<Status> CursorStore::load(CursorState& state, PositionProperties& position_properties) {
  auto value = co_await env_.metadata->get(path_);
  if (!value) co_return value.status();
  if (!*value) co_return Status::NotFound("the cursor key " + path_ + " is gone");
  auto info = parse_cursor_info((*value)->value, path_);
  if (!info) co_return info.status();
  info_ = std::move(*info);
  version_ = (*value)->stat.version;
  for (const auto& property : info_.cursorproperties())
    properties_[property.name()] = property.value();
  load_state(info_, state, position_properties);
  if (ledger_id() == kInKey) co_return Status::ok();

  auto ledger = co_await env_.ledgers->open(ledger_id());
  if (ledger.is(ErrorCode::NotFound)) {
    GM_LOG_WARN("cursor {}: its ledger {} is gone, going on from the snapshot at {}", path_,
                ledger_id(), state.mark_delete().to_string());
    co_return Status::ok();
  }
  if (!ledger) co_return ledger.status().with_context("opening the ledger of cursor " + path_);
  const EntryId last = (*ledger)->last_confirmed();
  if (last < 0) co_return Status::ok();
  auto entries = co_await (*ledger)->read(last, 1, SIZE_MAX);
  if (!entries && !entries.is(ErrorCode::Corruption)) {
    co_return entries.status().with_context("reading the state of cursor " + path_);
  }
  Status decoded = entries ? Status::ok() : entries.status();
  if (entries && !entries->empty()) {
    decoded = decode_position_info(entries->front().data.view(), state, position_properties);
  }
  if (!decoded) {
    // Older than what was acknowledged, so messages may come again, but none is lost.
    GM_LOG_ERROR("cursor {}: entry {}:{} cannot be read ({}), going on from the snapshot at {}",
                 path_, ledger_id(), last, decoded.to_string(), state.mark_delete().to_string());
    load_state(info_, state, position_properties);
  }
  co_return Status::ok();
}

bool CursorStore::ledger_full() const {
  return ledger_entries_ >= kMaxEntries ||
         (ledger_bytes_ >= kMaxBytes && ledger_entries_ >= kMinStates);
}

Task<Status> CursorStore::write(const CursorState& state,
                                const PositionProperties& position_properties,
                                StoredStateLimits limits, std::int64_t last_active_ms) {
  bool complete = true;
  std::string bytes = encode_position_info(state, position_properties, limits, &complete);
  if (!complete && !incomplete_told_) {
    GM_LOG_WARN(
        "cursor {}: {} acknowledged ranges and {} partly acknowledged batches are more than may be "
        "persisted "
        "(managedLedgerMaxBatchDeletedIndexToPersist, 4 MiB a state); a crash would deliver some "
        "again",
        path_, state.acked_range_count(), state.partials().size());
  }
  incomplete_told_ = !complete;
  last_state_bytes_ = bytes.size();

  // Everything is taken from the state before the first wait: it goes on changing.
  pulsar::ml::ManagedCursorInfo snapshot = info_;
  snapshot.set_lastactive(last_active_ms);
  put_state(state, position_properties, false, &snapshot);
  // Without a ledger acknowledgements must go on, if need be without the redelivery counts.
  const bool small = acks_fit_in_key(state);
  pulsar::ml::ManagedCursorInfo whole;
  if (small) {
    whole = snapshot;
    put_state(state, position_properties, true, &whole);
  }

  Status status;
  if (ledger_ != nullptr && !ledger_full()) {
    const auto size = static_cast<std::int64_t>(bytes.size());
    status = co_await append_and_wait(ledger_, Buffer::copy_of(bytes), 0);
    if (status) {
      ++ledger_entries_;
      ledger_bytes_ += size;
      co_return status;
    }
    ledger_.reset();
  }
  status = co_await write_to_new_ledger(std::move(bytes), std::move(snapshot));
  if (status || status.is(ErrorCode::Fenced) || !small) co_return status;
  co_return co_await write_to_key(std::move(whole));
}

Task<Status> CursorStore::write_in_key(const CursorState& state,
                                       const PositionProperties& position_properties,
                                       std::int64_t last_active_ms) {
  pulsar::ml::ManagedCursorInfo whole = info_;
  whole.set_lastactive(last_active_ms);
  put_state(state, position_properties, true, &whole);
  co_return co_await write_to_key(std::move(whole));
}

Task<Status> CursorStore::write_to_new_ledger(std::string state,
                                              pulsar::ml::ManagedCursorInfo snapshot) {
  std::map<std::string, std::string> metadata = {{"application", "pulsar"},
                                                 {"component", "managed-ledger"},
                                                 {"pulsar/managed-ledger", ledger_name_},
                                                 {"pulsar/cursor", cursor_name_}};
  auto created = co_await env_.ledgers->create(std::move(metadata));
  if (!created) co_return created.status();
  std::shared_ptr<Ledger> ledger = std::move(*created);
  const LedgerId superseded = ledger_id();
  Status status = co_await append_and_wait(ledger, Buffer::copy_of(state), 0);
  if (status) {
    snapshot.set_cursorsledgerid(ledger->id());
    status = co_await put(std::move(snapshot));
  }
  if (!status) {
    co_await remove_ledger(ledger->id());
    co_return status;
  }
  ledger_ = std::move(ledger);
  ledger_entries_ = 1;
  ledger_bytes_ = static_cast<std::int64_t>(state.size());
  co_await remove_ledger(superseded);
  co_return status;
}

Task<Status> CursorStore::write_to_key(pulsar::ml::ManagedCursorInfo whole) {
  const LedgerId superseded = ledger_id();
  whole.set_cursorsledgerid(kInKey);
  const Status status = co_await put(std::move(whole));
  if (!status) co_return status;
  ledger_.reset();
  co_await remove_ledger(superseded);
  co_return status;
}

Task<void> CursorStore::remove_ledger(LedgerId id) {
  if (id == kInKey) co_return;
  const Status status = co_await env_.ledgers->remove(id);
  if (!status) {
    GM_LOG_WARN("cursor {}: its superseded ledger {} could not be removed: {}", path_, id,
                status.to_string());
  }
}

Task<Status> CursorStore::set_properties(Properties properties, std::int64_t last_active_ms) {
  pulsar::ml::ManagedCursorInfo info = info_;
  info.set_lastactive(last_active_ms);
  put_cursor_properties(properties, &info);
  const Status status = co_await put(std::move(info));
  if (status) properties_ = std::move(properties);
  co_return status;
}

Task<Status> CursorStore::close(const CursorState& state,
                                const PositionProperties& position_properties,
                                StoredStateLimits limits, std::int64_t last_active_ms,
                                bool changed) {
  const bool in_key = ledger_id() == kInKey;
  if (in_key && !changed && last_active_ms == info_.lastactive()) co_return Status::ok();
  if (acks_fit_in_key(state) && state.redeliveries().size() <= kMaxRedeliveriesInKey) {
    pulsar::ml::ManagedCursorInfo whole = info_;
    whole.set_lastactive(last_active_ms);
    put_state(state, position_properties, true, &whole);
    co_return co_await write_to_key(std::move(whole));
  }
  Status status;
  if (changed) status = co_await write(state, position_properties, limits, last_active_ms);
  if (status && ledger_ != nullptr) status = co_await ledger_->seal();
  co_return status;
}

Task<Status> CursorStore::remove() {
  Status status = co_await env_.metadata->remove(path_, version_);
  if (status.is(ErrorCode::BadVersion)) {
    co_return Status::Fenced("another broker has written " + path_ +
                             "; close the topic and look it up again");
  }
  if (!status && !status.is(ErrorCode::NotFound)) co_return status;
  ledger_.reset();
  co_await remove_ledger(ledger_id());
  co_return Status::ok();
}

}  // namespace geminga
