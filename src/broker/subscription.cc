#include "broker/subscription.h"

namespace geminga {

std::string_view to_string(SubscriptionType type) {
  switch (type) {
    case SubscriptionType::Exclusive: return "Exclusive";
    case SubscriptionType::Shared: return "Shared";
    case SubscriptionType::Failover: return "Failover";
    case SubscriptionType::KeyShared: return "Key_Shared";
  }
  return "?";
}

}  // namespace geminga
