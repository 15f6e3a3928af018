// Deleting a namespace, for itself or with its tenant.
#pragma once

#include "base/status.h"
#include "broker/topic_name.h"
#include "runtime/task.h"

namespace geminga {

struct Admin;

// Without `force` only an empty one (Conflict). Marks it deleted first, so that nothing new comes
// into being; with `force` deletes its topics. NotFound: "Namespace t/n does not exist.".
Task<Status> delete_namespace(Admin& admin, NamespaceName ns, bool force);

}  // namespace geminga
