// `topics explain`: prints why a subscription delivers nothing now, as the broker tells it.
#pragma once

#include "cli/admin/command.h"

namespace geminga::admin_cli {

Status explain(Call& call);

}  // namespace geminga::admin_cli
