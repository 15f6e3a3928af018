#include "managed_ledger/ledger_handles.h"

#include <algorithm>

namespace geminga {

Ledger* LedgerHandles::cached(LedgerId id) {
  for (auto at = recent_.begin(); at != recent_.end(); ++at) {
    if ((*at)->id() != id) continue;
    std::rotate(recent_.begin(), at, at + 1);
    return recent_.front().get();
  }
  return nullptr;
}

Task<Result<std::shared_ptr<Ledger>>> LedgerHandles::get(LedgerId id) {
  if (cached(id) != nullptr) co_return recent_.front();
  auto lock = co_await opening_.lock();
  if (cached(id) != nullptr) co_return recent_.front();
  auto opened = co_await store_.open(id);
  if (opened) put(*opened);
  co_return opened;
}

void LedgerHandles::put(std::shared_ptr<Ledger> ledger) {
  drop(ledger->id());
  recent_.insert(recent_.begin(), std::move(ledger));
  if (recent_.size() > kMost) recent_.pop_back();
}

void LedgerHandles::drop(LedgerId id) {
  std::erase_if(recent_, [id](const auto& ledger) { return ledger->id() == id; });
}

}  // namespace geminga
