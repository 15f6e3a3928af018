// The YAML file of `clusters create --cluster-config-file`: the members of a cluster's data by
// their names in the REST API, "serviceUrl: http://...".
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "base/status.h"

namespace geminga::admin_cli {

// Io if it cannot be read; InvalidArgument names the line of what is no YAML, an unknown member, or
// a value of another type. Files of more than 1 MiB are refused.
Result<boost::json::object> read_cluster_file(const std::string& path);
// The same of its text; `name` is for the errors.
Result<boost::json::object> parse_cluster_file(const std::string& text, const std::string& name);

}  // namespace geminga::admin_cli
