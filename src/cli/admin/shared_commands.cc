#include "cli/admin/shared_commands.h"

#include <cstdio>
#include <iostream>
#include <string>

#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "server/json_text.h"

namespace geminga::admin_cli {

namespace {

Status show_quotas(Call& call, std::string_view pattern) {
  GM_ASSIGN_OR_RETURN(const Answer answer,
                      call.client.must("GET", make_target(pattern, call.values)));
  print_text(call.wants_json ? render(Print::Json, answer.body, false) : quota_lines(answer.body));
  return Status::ok();
}

}  // namespace

Status confirm(std::string_view question, std::string_view way_out) {
  std::cerr << question << " (Y or N) " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y") return Status::ok();
  return Status::PreconditionFailed("not confirmed, nothing was done; " + std::string(way_out));
}

void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string quota_lines(const std::string& body) {
  const auto quotas = parse_json(body);
  if (!quotas || !quotas->is_object()) return body.empty() ? "" : body + "\n";
  std::string out;
  for (const auto& [type, quota] : quotas->get_object()) {
    const auto member = [&quota = quota](const char* name) {
      const auto* value = quota.is_object() ? quota.get_object().if_contains(name) : nullptr;
      return value == nullptr ? std::string("null") : plain(*value);
    };
    out += std::string(type) + "    BacklogQuotaImpl(limit=" + member("limit") +
           ", limitSize=" + member("limitSize") + ", limitTime=" + member("limitTime") +
           ", policy=" + member("policy") + ")\n";
  }
  return out;
}

Status show_topic_backlog_quotas(Call& call) {
  return show_quotas(call,
                     "/admin/v2/{topic}/backlogQuotaMap?isGlobal={global?}&applied={applied}");
}
Status show_namespace_backlog_quotas(Call& call) {
  return show_quotas(call, "/admin/v2/namespaces/{namespace}/backlogQuotaMap");
}

}  // namespace geminga::admin_cli
