// Policies of a single topic, which its partitions share: where they are kept, and what they change
// of the namespace's. Any thread.
#pragma once

#include <string>

#include "base/status.h"
#include "broker/namespaces.h"
#include "broker/topic_name.h"

namespace geminga {

// "/admin/topic-policies/tenant/ns/persistent/ENC of the base".
std::string topic_policies_key(const TopicName& name);

// Lays the topic's policies (JSON: a part for all clusters, "global", under one for this, "local")
// over `policies`. Corruption if `text` is no JSON object.
Status overlay_topic_policies(NamespacePolicies& policies, const std::string& text);

}  // namespace geminga
