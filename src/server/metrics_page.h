// GET /metrics: what Prometheus scrapes. Process, stores, broker sums and HTTP come from
// base/metrics.h; the samples of topics are written while they are sent, in pieces of bounded size,
// names and types from the same table. With exposeTopicLevelMetricsInPrometheus=false they are
// summed by namespace.
#pragma once

#include <string>

namespace geminga {

struct Admin;
class HttpRouter;

void add_metrics_routes(HttpRouter& router, Admin& admin);

}  // namespace geminga
