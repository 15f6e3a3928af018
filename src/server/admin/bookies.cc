// Bookies: their racks, stored under /bookies as Pulsar does. The embedded store has no bookies, so
// the list of those that run is empty.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "server/admin/admin.h"
#include "server/admin/documents.h"
#include "server/admin/namespace_change.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr char kRacks[] = "/bookies";  // {group: {address: {rack, hostname}}}

Status no_rack(const std::string& bookie) {
  return Status::NotFound("Bookie rack placement configuration not found: " + bookie);
}

Task<Result<json::object>> racks(Admin& admin) {
  auto document = co_await read_document(admin.metadata(), kRacks);
  if (!document) co_return document.status();
  co_return document->has_value() ? std::move(**document) : json::object();
}

Answer list_bookies(Admin&, HttpRequest&) { co_return json_text(R"({"bookies":[]})"); }

Answer list_racks(Admin& admin, HttpRequest&) {
  auto all = co_await racks(admin);
  if (!all) co_return all.status();
  co_return json_answer(*all);
}

Answer get_rack(Admin& admin, HttpRequest& request) {
  auto all = co_await racks(admin);
  if (!all) co_return all.status();
  for (const auto& group : *all) {
    if (!group.value().is_object()) continue;
    const json::value* rack = group.value().get_object().if_contains(request.param("bookie"));
    if (rack != nullptr) co_return json_answer(*rack);
  }
  co_return no_rack(request.param("bookie"));
}

// Takes it out of every group; groups that are then empty go.
bool take_out(json::object& all, const std::string& bookie) {
  bool found = false;
  for (auto at = all.begin(); at != all.end();) {
    if (at->value().is_object()) found = at->value().get_object().erase(bookie) > 0 || found;
    at = at->value().is_object() && !at->value().get_object().empty() ? at + 1 : all.erase(at);
  }
  return found;
}

Answer set_rack(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Refused);
  if (body.refusal) co_return std::move(*body.refusal);
  if (!body.value.is_object())
    co_return refusal_of(Status::Protocol("the place of a bookie is an object with its rack"));
  json::object place;
  for (const char* field : {"rack", "hostname"}) {
    const json::value* value = member(body.value.get_object(), field);
    if (value == nullptr) continue;
    if (!value->is_string())
      co_return refusal_of(Status::Protocol(std::string(field) + " is text"));
    place[field] = *value;
  }
  if (!place.contains("rack") || place["rack"].get_string().empty())
    co_return Status::PreconditionFailed("Bookie 'rack' parameters must be not empty");
  const std::string group(request.query_value("group").value_or("default"));
  const std::string bookie = request.param("bookie");
  if (group.empty()) co_return Status::PreconditionFailed("Bookie 'group' must be not empty");
  DocumentChange change = [&group, &bookie, &place](json::object& all) {
    take_out(all, bookie);
    object_in(all, group)[bookie] = place;
    return Status::ok();
  };
  Status changed = co_await change_document(admin.metadata(), kRacks, std::move(change), true);
  if (!changed) co_return changed;
  co_return no_content();
}

Answer remove_rack(Admin& admin, HttpRequest& request) {
  const std::string bookie = request.param("bookie");
  DocumentChange change = [&bookie](json::object& all) {
    return take_out(all, bookie) ? Status::ok() : no_rack(bookie);
  };
  Status changed = co_await change_document(admin.metadata(), kRacks, std::move(change), true);
  if (!changed) co_return changed;
  co_return no_content();
}

#define GM_BOOKIES "/admin/v2/bookies"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Get, GM_BOOKIES "/all", "Bookies that run", list_bookies},
    {HttpMethod::Get, GM_BOOKIES "/racks-info", "Racks of the bookies", list_racks},
    {HttpMethod::Get, GM_BOOKIES "/racks-info/{bookie}", "Rack of a bookie", get_rack},
    {HttpMethod::Post, GM_BOOKIES "/racks-info/{bookie}", "Set the rack of a bookie", set_rack},
    {HttpMethod::Delete, GM_BOOKIES "/racks-info/{bookie}", "Remove the rack of a bookie",
     remove_rack},
};

}  // namespace

void add_bookie_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
