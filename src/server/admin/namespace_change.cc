#include "server/admin/namespace_change.h"

#include <boost/json/value.hpp>

namespace geminga {

namespace json = boost::json;

namespace {

Status no_namespace() { return Status::NotFound("Namespace does not exist"); }

}  // namespace

Task<Result<json::object>> namespace_document(Admin& admin, HttpRequest& request) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  auto policies = co_await read_document(admin.metadata(), policies_path(*ns));
  if (!policies) co_return policies.status();
  if (!policies->has_value()) co_return no_namespace();
  co_return std::move(**policies);
}

Answer change_namespace(Admin& admin, HttpRequest& request, DocumentChange apply, unsigned ok) {
  auto ns = namespace_of(request);
  if (!ns) co_return ns.status();
  Status changed = co_await change_document(admin.metadata(), policies_path(*ns), std::move(apply));
  if (changed.is(ErrorCode::NotFound)) co_return no_namespace();
  if (!changed) co_return changed;
  HttpResponse response;
  response.status = ok;
  co_return response;
}

const json::value* member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_null() ? nullptr : value;
}

json::object& object_in(json::object& document, std::string_view name) {
  json::value& value = document[name];
  if (!value.is_object()) value = json::object();
  return value.get_object();
}

}  // namespace geminga
