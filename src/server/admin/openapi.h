// The description of the HTTP API, OpenAPI 3.0, at /openapi.json: made from the routes that serve,
// once, when it is first asked for. What a route's pattern and summary do not tell (query, bodies)
// stands in a table beside it.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <vector>

#include "server/http_router.h"

namespace geminga {

struct Admin;

// Paths, parameters, bodies and answers of all routes. `unused` gets the rows of the table that fit
// no route: a fault.
boost::json::object describe_api(const HttpRouter& router,
                                 std::vector<std::string>* unused = nullptr);

// The last of all routes, for it describes the others. `router` outlives the requests.
void add_openapi_route(HttpRouter& router);

}  // namespace geminga
