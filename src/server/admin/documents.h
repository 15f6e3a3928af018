// JSON documents in the metadata store: tenants, namespace policies, clusters, partitioned topics,
// topic policies. One node a document; a change reads it, applies a function, and writes it with
// the version it read, again if somebody else was faster, so that concurrent changes never lose
// each other. Any shard.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "metadata/metadata_store.h"
#include "runtime/task.h"

namespace geminga {

// Empty if there is no such document. Corruption if it is no JSON object.
Task<Result<std::optional<boost::json::object>>> read_document(MetadataStore& store,
                                                               std::string path);
// AlreadyExists if it is there.
Task<Status> create_document(MetadataStore& store, std::string path, boost::json::object document);

// Changes the document; its failure is the answer and nothing is written. May be called several
// times.
using DocumentChange = std::function<Status(boost::json::object&)>;
// NotFound if there is none, unless `create`: then the change starts from an empty one.
Task<Status> change_document(MetadataStore& store, std::string path, DocumentChange change,
                             bool create = false);

}  // namespace geminga
