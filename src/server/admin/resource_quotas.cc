// Resource quotas of bundles: what Pulsar's load balancer expects of them. Stored below
// /loadbalance/resource-quota; a broker that stands alone balances nothing by them.
#include <boost/json/object.hpp>

#include "server/admin/admin.h"
#include "server/admin/bundles.h"
#include "server/admin/documents.h"
#include "server/admin/namespace_change.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr char kDefault[] = "/loadbalance/resource-quota/default";
constexpr const char* kRates[] = {"msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut",
                                  "memory"};

// Pulsar's, while nobody has set another.
json::object usual_quota() {
  json::object out;
  out["msgRateIn"] = 40.0;
  out["msgRateOut"] = 120.0;
  out["bandwidthIn"] = 100000.0;
  out["bandwidthOut"] = 300000.0;
  out["memory"] = 80.0;
  out["dynamic"] = true;
  return out;
}

Result<json::object> read_quota(const json::value& body) {
  if (!body.is_object()) return Status::Protocol("a resource quota is an object");
  const json::object& given = body.get_object();
  json::object out;
  for (const char* rate : kRates) {
    const json::value* value = given.if_contains(rate);
    if (value == nullptr || value->is_null()) {
      out[rate] = 0.0;
    } else if (value->is_number()) {
      out[rate] = value->to_number<double>();
    } else {
      return Status::Protocol(std::string("Cannot deserialize value of type `double` for ") + rate);
    }
    if (out[rate].as_double() < 0) {
      return Status::InvalidArgument(std::string(rate) + " of a resource quota must be 0 or more");
    }
  }
  const json::value* dynamic = given.if_contains("dynamic");
  out["dynamic"] = dynamic == nullptr || !dynamic->is_bool() || dynamic->get_bool();
  return out;
}

Answer show(Admin& admin, std::string path) {
  for (std::string from : {std::move(path), std::string(kDefault)}) {
    auto quota = co_await read_document(admin.metadata(), from);
    if (!quota) co_return quota.status();
    if (quota->has_value() && !(*quota)->empty()) co_return json_answer(**quota);
  }
  co_return json_answer(usual_quota());
}

Answer store(Admin& admin, HttpRequest& request, std::string path) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  auto quota = read_quota(body.value);
  if (!quota) co_return refusal_of(quota.status());
  const json::object stored = std::move(*quota);
  DocumentChange change = [&stored](json::object& document) {
    document = stored;
    return Status::ok();
  };
  Status changed =
      co_await change_document(admin.metadata(), std::move(path), std::move(change), true);
  if (!changed) co_return changed;
  co_return no_content();
}

Answer get_default(Admin& admin, HttpRequest&) { return show(admin, kDefault); }
Answer set_default(Admin& admin, HttpRequest& request) { return store(admin, request, kDefault); }

// Where the quota of {bundle} is kept; PreconditionFailed if there is no such bundle.
Task<Result<std::string>> bundle_quota(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  auto ns = namespace_of(request);
  const std::string& bundle = request.param("bundle");
  const std::string wrong = why_no_bundle(*policies, ns->full(), bundle);
  if (!wrong.empty()) co_return Status::PreconditionFailed(wrong);
  co_return "/loadbalance/resource-quota/namespace/" + ns->full() + '/' + bundle;
}

Answer get_of_bundle(Admin& admin, HttpRequest& request) {
  auto path = co_await bundle_quota(admin, request);
  if (!path) co_return path.status();
  co_return co_await show(admin, *path);
}
Answer set_of_bundle(Admin& admin, HttpRequest& request) {
  auto path = co_await bundle_quota(admin, request);
  if (!path) co_return path.status();
  co_return co_await store(admin, request, *path);
}
Answer remove_of_bundle(Admin& admin, HttpRequest& request) {
  auto path = co_await bundle_quota(admin, request);
  if (!path) co_return path.status();
  Status removed = co_await admin.metadata().remove_recursive(*path);
  if (!removed) co_return removed;
  co_return no_content();
}

#define GM_QUOTAS "/admin/v2/resource-quotas"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_QUOTAS, "Resource quota of bundles without one", get_default},
    {HttpMethod::Post, GM_QUOTAS, "Set the resource quota of bundles without one", set_default},
    {HttpMethod::Get, GM_QUOTAS "/{tenant}/{namespace}/{bundle}", "Resource quota of a bundle",
     get_of_bundle},
    {HttpMethod::Post, GM_QUOTAS "/{tenant}/{namespace}/{bundle}",
     "Set the resource quota of a bundle", set_of_bundle},
    {HttpMethod::Delete, GM_QUOTAS "/{tenant}/{namespace}/{bundle}",
     "Remove the resource quota of a bundle", remove_of_bundle},
};

}  // namespace

void add_resource_quota_routes(HttpRouter& router, Admin& admin) {
  add_routes(router, admin, kRoutes);
}

}  // namespace geminga
