// GET /metrics: what Prometheus scrapes. Process, memory, stores, transactions and HTTP are put on
// a page here; topics and what belongs to them are the business of topic_metrics.h. Names, types
// and labels come from one table, base/metrics.inc.
#pragma once

#include <string>

namespace geminga {

struct Admin;
class HttpRouter;

void add_metrics_routes(HttpRouter& router, Admin& admin);

}  // namespace geminga
