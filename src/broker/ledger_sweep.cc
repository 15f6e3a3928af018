#include "broker/ledger_sweep.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "managed_ledger/managed_ledger.h"
#include "runtime/async.h"
#include "schema/schema_ledgers.h"

namespace geminga {

Task<void> LedgerSweep::start() {
  bool any = false;
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    LedgerStore* log = logs_[i].store;
    auto ask = [log]() -> Task<std::vector<LedgerId>> {
      if (!log->after_crash()) co_return std::vector<LedgerId>();
      co_return log->list();
    };
    there_.push_back(co_await on_shard(runtime_.shard(logs_[i].shard), ask));
    any |= !there_.back().empty();
  }
  if (!any) co_return;
  auto work = [this]() { return sweep(); };
  spawn(runtime_.shard(0), gate_, std::move(work));
}

Task<void> LedgerSweep::close() {
  *stopped_ = true;
  co_await gate_.close();
}

Task<std::int64_t> LedgerSweep::finished() {
  co_await gate_.close();
  co_return removed_;
}

Task<void> LedgerSweep::sweep() {
  auto named = co_await referenced_ledgers(metadata_, stopped_);
  Status status = named.status();
  if (named) {
    const auto schemas = co_await schema_ledgers(metadata_, stopped_);
    status = schemas.status();
    if (schemas) named->insert(named->end(), schemas->begin(), schemas->end());
  }
  if (*stopped_) co_return;
  if (!status) {
    GM_LOG_WARN("ledgers that a crash may have left are not removed: {}", status.to_string());
    co_return;
  }
  std::sort(named->begin(), named->end());
  for (std::size_t i = 0; i < logs_.size() && !*stopped_; ++i) {
    std::vector<LedgerId> nameless;
    std::set_difference(there_[i].begin(), there_[i].end(), named->begin(), named->end(),
                        std::back_inserter(nameless));
    const auto count = static_cast<std::int64_t>(nameless.size());
    if (count == 0) continue;
    auto work = [this, i, ids = std::move(nameless)]() { return remove(i, ids); };
    Shard& shard = runtime_.shard(logs_[i].shard);
    status = co_await on_shard(shard, std::move(work));
    if (!status) {
      GM_LOG_WARN("log {}: removing ledgers that a crash left: {}", i, status.to_string());
      continue;
    }
    removed_ += count;
    GM_LOG_INFO("log {}: removed {} ledgers that a crash left and nothing names", i, count);
  }
}

Task<Status> LedgerSweep::remove(std::size_t log, std::vector<LedgerId> ids) {
  for (const LedgerId id : ids) GM_CO_RETURN_IF_ERROR(co_await logs_[log].store->remove(id));
  co_return Status::ok();
}

}  // namespace geminga
