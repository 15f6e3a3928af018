// What the randomized model tests of subscriptions have in common: seeds, coming to rest, draining.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "broker/subscription_test_support.h"

namespace geminga::testing {

// Runs a schedule for each seed until one fails, and prints that. GEMINGA_SEED=n runs that one
// alone, GEMINGA_RUNS=n so many.
inline void run_seeds(std::uint64_t runs, const std::function<void(std::uint64_t)>& run) {
  std::uint64_t first = 1;
  if (const char* wanted = std::getenv("GEMINGA_RUNS")) runs = std::strtoull(wanted, nullptr, 10);
  if (const char* wanted = std::getenv("GEMINGA_SEED")) {
    first = std::strtoull(wanted, nullptr, 10);
    runs = 1;
  }
  for (std::uint64_t seed = first; seed < first + runs && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("GEMINGA_SEED=" + std::to_string(seed));
    run(seed);
    if (::testing::Test::HasFailure())
      std::fprintf(stderr, "replay with GEMINGA_SEED=%llu\n",
                   static_cast<unsigned long long>(seed));
  }
}

// Until nothing moves any more; then there must be a reason.
inline Task<void> settle(TestSubscription& s) {
  for (int i = 0; i < 20'000; ++i) {
    co_await turns(1);
    const WaitReason reason = s.subscription->why_waiting();
    if (s.ledger.reads_in_flight > 0 || reason == WaitReason::TurnScheduled ||
        reason == WaitReason::ReadInFlight) {
      continue;
    }
    if (reason == WaitReason::FailoverDelay) {
      co_await sleep_for(Millis{1});
      continue;
    }
    EXPECT_NE(reason, WaitReason::None) << "nothing moves although it could";
    co_return;
  }
  ADD_FAILURE() << "never comes to rest: " << to_string(s.subscription->why_waiting());
}

// All clients of the model read, ask for more and acknowledge: the backlog goes to nothing. A
// Client has `outbox`, `consumer` and `permits`; `collect()` takes what was sent to them,
// `ack_all(client)` acknowledges what one holds.
template <typename Clients, typename Collect, typename AckAll>
Task<void> drain(TestSubscription& s, Clients& clients, Collect collect, AckAll ack_all) {
  for (int round = 0; round < 2000 && !::testing::Test::HasFailure(); ++round) {
    for (auto& client : clients) {
      client.outbox->window = ~std::size_t{0};
      if (client.permits < 20) {
        client.permits += 50;
        s.subscription->flow(*client.consumer, 50);
      }
    }
    collect();
    co_await settle(s);
    collect();
    for (auto& client : clients) ack_all(client);
    if (s.cursor->backlog_entries() == 0) break;
  }
  EXPECT_EQ(s.cursor->backlog_entries(), 0)
      << "does not drain: " << to_string(s.subscription->why_waiting());
  EXPECT_EQ(s.subscription->counters().stalls, 0);
}

}  // namespace geminga::testing
