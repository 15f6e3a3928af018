#include "ledger/log_ledger.h"

#include <fmt/format.h>

namespace geminga {

Status LogLedger::closed() const {
  const char* why = state_->removed     ? "it was deleted"
                    : store_ == nullptr ? "its log is closed"
                    : state_->sealed    ? "it is sealed"
                                        : "an append failed";
  return Status::Closed(fmt::format("ledger {}: {}", state_->id, why));
}

Result<EntryId> LogLedger::append(const Buffer& data, std::uint32_t messages, AppendSink* sink) {
  if (store_ == nullptr || state_->sealed || state_->removed || state_->failed) return closed();
  LogWriter& writer = store_->writer_;
  if (writer.failed()) return Status::Closed(writer.failure().message());
  if (data.size() > writer.max_payload()) {
    return Status::InvalidArgument(
        fmt::format("an entry of {} bytes is larger than {}, the most a segment takes", data.size(),
                    writer.max_payload()));
  }
  if (!state_->reserve && !store_->segments_.writable()) {
    ++store_->counters_.refused_disk_full;
    return Status::DiskFull(
        fmt::format("the disk of {} has only its reserve left; free space, or raise the limit",
                    store_->folder_->path()));
  }
  return writer.add_entry(state_, data.span(), messages, sink);
}

std::size_t LogLedger::read_cached(EntryId first, std::size_t max_entries, std::size_t max_bytes,
                                   std::vector<LedgerEntry>& out) {
  if (store_ == nullptr) return 0;
  return store_->reader_.read_cached(state_, first, max_entries, max_bytes, out);
}

Task<Result<std::vector<LedgerEntry>>> LogLedger::read(EntryId first, std::size_t max_entries,
                                                       std::size_t max_bytes) {
  if (store_ == nullptr || state_->removed) co_return closed();
  co_return co_await store_->reader_.read(state_, first, max_entries, max_bytes);
}

Task<Result<std::int64_t>> LogLedger::messages_through(EntryId entry) {
  if (store_ == nullptr || state_->removed) co_return closed();
  co_return co_await store_->reader_.messages_through(state_, entry);
}

Task<Status> LogLedger::seal() {
  if (store_ == nullptr) co_return closed();
  co_return co_await store_->seal(state_);
}

}  // namespace geminga
