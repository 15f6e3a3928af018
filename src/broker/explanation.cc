#include "broker/explanation.h"

namespace geminga {

namespace {

struct Told {
  WaitReason reason;
  std::string_view code, words, advice;
};

constexpr Told kTold[] = {
    {WaitReason::None, "NONE", "nothing to wait for", ""},
    {WaitReason::Stopped, "STOPPED", "the subscription is being closed or reset",
     "consumers connect again by themselves when it is over"},
    {WaitReason::NoConsumer, "NO_CONSUMER", "no consumer is connected", "connect a consumer"},
    {WaitReason::TurnScheduled, "DELIVERING", "a delivery is scheduled", ""},
    {WaitReason::ReadInFlight, "READING", "a read is in flight", ""},
    {WaitReason::DispatchRate, "DISPATCH_RATE", "the dispatch rate is reached",
     "raise or remove the dispatch rate of the subscription, topic or namespace"},
    {WaitReason::ReadRetry, "READ_FAILED", "a read failed and will be tried again",
     "look for the cause in the broker's log; `geminga doctor` checks the data folder"},
    {WaitReason::NothingToRead, "NOTHING_TO_READ", "everything is delivered",
     "what is left in the backlog is with the consumers: they have to acknowledge"},
    {WaitReason::Delayed, "DELAYED", "all that is left is held back until its time", ""},
    {WaitReason::OpenTransaction, "OPEN_TRANSACTION", "an open transaction holds back what follows",
     "end the transaction; it is aborted when its time is over"},
    {WaitReason::NoPermits, "NO_PERMITS", "no consumer has permits",
     "the applications do not take what they have: see whether they are busy or stuck in receive"},
    {WaitReason::ClientNotReading, "CLIENT_NOT_READING",
     "the clients with permits do not read what they were sent",
     "see whether the client's machine or network is overloaded"},
    {WaitReason::UnackedLimit, "UNACKED_LIMIT",
     "consumers reached the limit of unacknowledged messages",
     "acknowledge, or raise maxUnackedMessagesPerConsumer"},
    {WaitReason::SubscriptionUnackedLimit, "SUBSCRIPTION_UNACKED_LIMIT",
     "the subscription reached the limit of unacknowledged messages",
     "acknowledge, or raise maxUnackedMessagesPerSubscription"},
    {WaitReason::BrokerUnackedLimit, "BROKER_UNACKED_LIMIT",
     "the broker reached its limit of unacknowledged messages, and this subscription holds many",
     "acknowledge, or raise maxUnackedMessagesPerBroker"},
    {WaitReason::Standby, "STANDBY", "another consumer is the active one", ""},
    {WaitReason::FailoverDelay, "FAILOVER_DELAY", "the active consumer changed a moment ago", ""},
    {WaitReason::KeysInUse, "KEYS_IN_USE",
     "the keys of what is left wait for acknowledgements or permits",
     "the consumers that hold these keys have to acknowledge; `drainingHashes` names them"},
    {WaitReason::LookAheadFull, "LOOK_AHEAD_FULL",
     "too many entries wait for slow consumers or keys in use",
     "the slow consumers hold up the others: see their permits and unacknowledged messages"},
    {WaitReason::DelayedIndexFull, "DELAYED_INDEX_FULL",
     "the index of delayed messages is full, because it cannot be written",
     "see whether the disk is full"},
};

const Told& told(WaitReason reason) {
  for (const Told& each : kTold) {
    if (each.reason == reason) return each;
  }
  return kTold[0];
}

}  // namespace

std::string_view to_string(WaitReason reason) { return told(reason).words; }
std::string_view code_of(WaitReason reason) { return told(reason).code; }
std::string_view advice_for(WaitReason reason) { return told(reason).advice; }

}  // namespace geminga
