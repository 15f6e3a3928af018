// Why a subscription or a consumer gets nothing at this moment, in codes and in words. Made on the
// topic's shard when somebody asks; values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/position.h"

namespace geminga {

enum class WaitReason : std::uint8_t {
  None,
  Stopped,
  NoConsumer,
  TurnScheduled,
  ReadInFlight,
  ReadRetry,
  DispatchRate,
  NothingToRead,
  Delayed,
  OpenTransaction,
  NoPermits,
  ClientNotReading,
  UnackedLimit,
  SubscriptionUnackedLimit,
  BrokerUnackedLimit,
  Standby,
  FailoverDelay,
  KeysInUse,
  LookAheadFull,
  DelayedIndexFull,
};
std::string_view to_string(WaitReason reason);   // in words
std::string_view code_of(WaitReason reason);     // "NO_PERMITS"; stable, for programs
std::string_view advice_for(WaitReason reason);  // what to do about it; empty: nothing

struct Explanation {
  struct OfConsumer {
    std::string name;
    WaitReason reason = WaitReason::None;
    std::int64_t permits = 0;
    std::int64_t unacked = 0;  // messages
    std::int64_t parked = 0;   // entries that only this consumer may get
  };
  struct DrainingKey {
    std::int32_t hash = 0;
    std::string held_by;       // consumer name
    std::int64_t unacked = 0;  // entries
    std::int64_t waiting = 0;  // entries
  };

  WaitReason reason = WaitReason::None;
  std::string type;  // of the subscription; empty before the first consumer
  std::int64_t backlog_entries = 0;
  std::int64_t backlog_messages = 0;
  Position mark_delete, read_position, last_confirmed;
  std::int64_t delayed = 0;
  std::int64_t to_be_sent_again = 0;                                           // entries
  std::int64_t unacked = 0, unacked_limit = 0, unacked_limit_of_consumer = 0;  // messages; 0: none
  std::vector<OfConsumer> consumers;
  std::vector<DrainingKey> draining;
};

}  // namespace geminga
