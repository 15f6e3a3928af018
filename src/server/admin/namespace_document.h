// The policies of a namespace as one JSON document, in Pulsar's stored form. Values; any thread.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "base/status.h"
#include "broker/topic_name.h"

namespace geminga {

// A new namespace's document: what `body` (null: nothing) sets, over the defaults. InvalidArgument,
// Protocol: the body is no Policies object.
Result<boost::json::object> new_namespace_document(const boost::json::value& body,
                                                   const std::string& cluster,
                                                   std::int64_t default_bundles);

// Where topic policies are: one node a topic (its partitions share it) below one node a namespace.
std::string topic_policies_root(const NamespaceName& ns);
std::string topic_policies_path(const TopicName& name);

}  // namespace geminga
