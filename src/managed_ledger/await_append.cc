#include "managed_ledger/await_append.h"

namespace geminga {

namespace {

class Awaited final : public AppendSink {
 public:
  void append_done(LedgerId, EntryId, const Status& status) override {
    status_ = status;
    done_.set();
  }
  Task<Status> outcome() {
    co_await done_.wait();
    co_return status_;
  }

 private:
  Event done_;
  Status status_;
};

}  // namespace

Task<Status> append_and_wait(std::shared_ptr<Ledger> ledger, Buffer data, std::uint32_t messages) {
  Awaited awaited;
  if (auto queued = ledger->append(data, messages, &awaited); !queued) co_return queued.status();
  co_return co_await awaited.outcome();
}

}  // namespace geminga
