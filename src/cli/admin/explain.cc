#include "cli/admin/explain.h"

#include <cstdio>

#include "cli/admin/request.h"
#include "cli/admin/shared_commands.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

std::string text_of(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}
long long number_of(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

void print_explanation(const json::object& why) {
  std::printf("%s, subscription %s%s%s\n  %s (%s)\n", text_of(why, "topic").c_str(),
              text_of(why, "subscription").c_str(), why.contains("type") ? ", " : "",
              text_of(why, "type").c_str(), text_of(why, "explanation").c_str(),
              text_of(why, "reason").c_str());
  if (why.contains("advice")) std::printf("  -> %s\n", text_of(why, "advice").c_str());
  std::printf("  backlog        %lld messages in %lld entries, behind %s; the log ends at %s\n",
              number_of(why, "backlogMessages"), number_of(why, "backlogEntries"),
              text_of(why, "markDeletePosition").c_str(),
              text_of(why, "lastConfirmedEntry").c_str());
  std::printf(
      "  with consumers %lld messages not acknowledged; %lld delayed; %lld entries to be sent "
      "again\n",
      number_of(why, "unackedMessages"), number_of(why, "delayedMessages"),
      number_of(why, "entriesToBeSentAgain"));
  if (const json::value* consumers = why.if_contains("consumers");
      consumers != nullptr && consumers->is_array()) {
    for (const json::value& each : consumers->get_array()) {
      if (!each.is_object()) continue;
      const json::object& of = each.get_object();
      std::printf("  consumer %s: %s; %lld permits, %lld messages not acknowledged\n",
                  text_of(of, "consumerName").c_str(), text_of(of, "explanation").c_str(),
                  number_of(of, "availablePermits"), number_of(of, "unackedMessages"));
    }
  }
  if (const json::value* keys = why.if_contains("drainingHashes");
      keys != nullptr && keys->is_array()) {
    for (const json::value& each : keys->get_array()) {
      if (!each.is_object()) continue;
      const json::object& key = each.get_object();
      std::printf("  key hash %lld: %s must acknowledge %lld entries, %lld wait for that\n",
                  number_of(key, "hash"), text_of(key, "heldBy").c_str(),
                  number_of(key, "unackedEntries"), number_of(key, "waitingEntries"));
    }
  }
}

}  // namespace

Status explain(Call& call) {
  GM_ASSIGN_OR_RETURN(
      const Answer answer,
      call.client.must("GET", make_target("/admin/v2/{topic}/subscription/{subscription}/explain",
                                          call.values)));
  GM_ASSIGN_OR_RETURN(const json::value why, parse_json(answer.body));
  if (call.wants_json || !why.is_object()) {
    print_text(answer.body + "\n");
  } else {
    print_explanation(why.get_object());
  }
  return Status::ok();
}

}  // namespace geminga::admin_cli
