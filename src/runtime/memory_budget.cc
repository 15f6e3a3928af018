#include "runtime/memory_budget.h"

namespace geminga {

std::string_view to_string(MemoryUse use) {
  switch (use) {
    case MemoryUse::Connection: return "connection";
    case MemoryUse::Publish: return "publish";
    case MemoryUse::LogWrite: return "log_write";
    case MemoryUse::Cache: return "cache";
    case MemoryUse::Delivery: return "delivery";
    case MemoryUse::Metadata: return "metadata";
    case MemoryUse::kCount: break;
  }
  return "?";
}

bool MemoryBudget::try_take(MemoryUse use, std::size_t bytes) {
  std::size_t now = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || now > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  by_use_[static_cast<std::size_t>(use)].fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void MemoryBudget::take(MemoryUse use, std::size_t bytes) {
  used_.fetch_add(bytes, std::memory_order_relaxed);
  by_use_[static_cast<std::size_t>(use)].fetch_add(bytes, std::memory_order_relaxed);
}

void MemoryBudget::give_back(MemoryUse use, std::size_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  by_use_[static_cast<std::size_t>(use)].fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace geminga
