// How the broker is configured, and what of it can be changed while it runs.
#include <boost/json/object.hpp>

#include "base/config.h"
#include "server/admin/admin.h"

namespace geminga {

namespace {

Answer runtime(Admin& admin, HttpRequest&) {
  const auto live = admin.live();
  boost::json::object out;
  for (const auto& [key, value] : config_values(*live)) out[key] = value;
  co_return json_answer(out);
}

Answer names(Admin&, HttpRequest&) { co_return text_list(LiveConfig::names()); }

Answer changed(Admin& admin, HttpRequest&) {
  auto values = co_await admin.broker.live_config().changed();
  if (!values) co_return values.status();
  boost::json::object out;
  for (const auto& [key, value] : *values) out[key] = value;
  co_return json_answer(out);
}

Answer set(Admin& admin, HttpRequest& request) {
  Status changed = co_await admin.broker.live_config().set(request.param("configName"),
                                                           request.param("configValue"));
  if (!changed) co_return changed;
  co_await admin.broker.refresh_topics();
  co_return ok_empty();
}

Answer reset(Admin& admin, HttpRequest& request) {
  Status changed = co_await admin.broker.live_config().reset(request.param("configName"));
  if (!changed) co_return changed;
  co_await admin.broker.refresh_topics();
  co_return ok_empty();
}

#define GM_CONFIGURATION "/admin/v2/brokers/configuration"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_CONFIGURATION "/runtime", "Every setting with its value", runtime},
    {HttpMethod::Get, GM_CONFIGURATION, "Settings that can be changed at run time", names},
    {HttpMethod::Get, GM_CONFIGURATION "/values", "Settings that were changed at run time",
     changed},
    {HttpMethod::Post, GM_CONFIGURATION "/{configName}/{configValue}", "Change a setting", set},
    {HttpMethod::Delete, GM_CONFIGURATION "/{configName}", "Take back a changed setting", reset},
};

}  // namespace

void add_configuration_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
