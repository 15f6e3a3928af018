// One append as something to co_await: for control flow (cursor states), not for messages.
#pragma once

#include "base/buffer.h"
#include "ledger/ledger_store.h"
#include "runtime/async.h"

namespace geminga {

// Completes when the entry is durable, or with the reason why it is not. `ledger` is kept until
// then.
Task<Status> append_and_wait(std::shared_ptr<Ledger> ledger, Buffer data, std::uint32_t messages);

}  // namespace geminga
