#include "managed_ledger/ledger_handles.h"

#include <algorithm>
#include <utility>

namespace geminga {

Ledger* LedgerHandles::cached(LedgerId id) {
  if (written_ != nullptr && written_->id() == id) return written_.get();
  for (auto at = recent_.begin(); at != recent_.end(); ++at) {
    if ((*at)->id() != id) continue;
    std::rotate(recent_.begin(), at, at + 1);
    return recent_.front().get();
  }
  return nullptr;
}

std::shared_ptr<Ledger> LedgerHandles::find(LedgerId id) {
  if (cached(id) == nullptr) return nullptr;
  return written_ != nullptr && written_->id() == id ? written_ : recent_.front();
}

Task<Result<std::shared_ptr<Ledger>>> LedgerHandles::get(LedgerId id) {
  if (auto open = find(id)) co_return open;
  auto lock = co_await opening_.lock();
  if (auto open = find(id)) co_return open;
  auto opened = co_await store_.open(id);
  if (opened) put(*opened);
  co_return opened;
}

void LedgerHandles::keep(std::shared_ptr<Ledger> ledger) {
  auto before = std::exchange(written_, nullptr);
  drop(ledger->id());
  if (before != nullptr && before->id() != ledger->id()) put(std::move(before));
  written_ = std::move(ledger);
}

void LedgerHandles::put(std::shared_ptr<Ledger> ledger) {
  drop(ledger->id());
  recent_.insert(recent_.begin(), std::move(ledger));
  if (recent_.size() > kMost) recent_.pop_back();
}

void LedgerHandles::drop(LedgerId id) {
  if (written_ != nullptr && written_->id() == id) written_.reset();
  std::erase_if(recent_, [id](const auto& ledger) { return ledger->id() == id; });
}

}  // namespace geminga
