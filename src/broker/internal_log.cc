#include "broker/internal_log.h"

#include <vector>

namespace geminga {

namespace {
constexpr std::size_t kReplayEntries = 100;
constexpr std::size_t kReplayBytes = 1 << 20;
}  // namespace

Task<Result<std::unique_ptr<InternalLog>>> InternalLog::open(ManagedLedgerEnv env, std::string name,
                                                             std::string cursor,
                                                             ManagedLedgerConfig config,
                                                             bool create_if_missing) {
  auto log = std::make_unique<InternalLog>();
  auto ledger =
      co_await open_managed_ledger(env, std::move(name), config, log.get(), create_if_missing);
  if (!ledger) co_return ledger.status();
  log->ledger_ = std::move(*ledger);
  auto opened = co_await log->ledger_->open_cursor(std::move(cursor), InitialPosition::Earliest,
                                                   std::map<std::string, std::string>());
  if (!opened) {
    (void)co_await log->ledger_->close();  // what failed is told
    co_return opened.status();
  }
  log->cursor_ = std::move(*opened);
  co_return log;
}

Task<Status> InternalLog::replay(UniqueFunction<Status(Position, std::string_view)> each) {
  Position from = cursor_->first_unacked();
  const Position last = ledger_->last_confirmed();
  while (from <= last) {
    const auto entries = co_await ledger_->read(from, kReplayEntries, kReplayBytes);
    if (!entries) co_return entries.status();
    if (entries->empty()) break;
    for (const Entry& entry : *entries) {
      if (entry.position > last) co_return Status::ok();
      if (cursor_->is_acked(entry.position)) continue;
      GM_CO_RETURN_IF_ERROR(each(entry.position, entry.data.view()));
    }
    from = cursor_->next_unacked(ledger_->next(entries->back().position));
    co_await sleep_for(Millis{0});  // others have their turn
  }
  co_return Status::ok();
}

Task<Result<Position>> InternalLog::append(std::string record) {
  auto waiting = std::make_shared<Waiting>();
  waiting_.push_back(waiting);
  ledger_->append(Buffer::copy_of(record), 1);
  co_await waiting->done.wait();
  if (!waiting->status) co_return waiting->status;
  co_return waiting->position;
}

void InternalLog::persisted(Position position, const Status& status) {
  const auto waiting = std::move(waiting_.front());
  waiting_.pop_front();
  waiting->position = position;
  waiting->status = status;
  waiting->done.set();
}

}  // namespace geminga
