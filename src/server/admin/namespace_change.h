// Reading and changing the stored policies of the namespace that a request names.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "server/admin/admin.h"
#include "server/admin/documents.h"

namespace geminga {

// NotFound "Namespace does not exist".
Task<Result<boost::json::object>> namespace_document(Admin& admin, HttpRequest& request);
// Changes the policies; an empty answer with status `ok` if that worked.
Answer change_namespace(Admin& admin, HttpRequest& request, DocumentChange apply,
                        unsigned ok = 204);

// A member that is there and not null, else nullptr.
const boost::json::value* member(const boost::json::object& object, std::string_view name);
// The object that is the member `name`, made if it is none.
boost::json::object& object_in(boost::json::object& document, std::string_view name);

}  // namespace geminga
