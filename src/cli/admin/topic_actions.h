// What commands of `topics` do that is more than one request: several requests, output in words,
// waiting. Each is a handler of the table in commands_topics.cc; an error's text is what the user
// reads.
#pragma once

#include <string_view>

#include "cli/admin/command.h"

namespace geminga::admin_cli {

Status list_in(Call& call, std::string_view rest);
Status lookup(Call& call);
Status partitioned_lookup(Call& call);
Status delete_topics(Call& call);
Status create_subscription(Call& call);
Status update_subscription_properties(Call& call);
Status expire(Call& call);
Status reset_cursor(Call& call);
Status peek(Call& call);
Status show_message(Call& call, std::string_view pattern, bool by_id);
Status terminate(Call& call);
Status terminate_partitions(Call& call);
Status compact(Call& call);
Status compaction_status(Call& call);
Status offload(Call& call);
Status offload_status(Call& call);
Status create_partitioned(Call& call);
Status create_shadow(Call& call);
Status shadow_source(Call& call);

}  // namespace geminga::admin_cli
