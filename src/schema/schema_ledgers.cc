#include "schema/schema_ledgers.h"

#include <string>

#include "SchemaStorageFormat.pb.h"
#include "metadata/metadata_store.h"

namespace geminga {

namespace {

struct Walk {
  MetadataStore& metadata;
  std::shared_ptr<const bool> stopped;
  std::vector<LedgerId> ids = {};

  Task<Status> add_below(std::string path);
};

Task<Status> Walk::add_below(std::string path) {
  if (stopped != nullptr && *stopped) co_return Status::Closed("the walk was ended");
  auto node = co_await metadata.get(path);
  if (!node) co_return node.status();
  if (node->has_value() && !(*node)->value.empty()) {
    pulsar::schema::storage::SchemaLocator locator;
    if (!locator.ParseFromString((*node)->value))
      co_return Status::Corruption("the node " + path + " holds no SchemaLocator");
    ids.push_back(locator.info().position().ledgerid());
    for (const auto& version : locator.index()) ids.push_back(version.position().ledgerid());
  }
  auto names = co_await metadata.children(path);
  if (!names) co_return names.status();
  for (const std::string& name : *names) {
    GM_CO_RETURN_IF_ERROR(co_await add_below(path + "/" + name));
  }
  co_return Status::ok();
}

}  // namespace

Task<Result<std::vector<LedgerId>>> schema_ledgers(MetadataStore& metadata,
                                                   std::shared_ptr<const bool> stopped) {
  Walk walk{metadata, std::move(stopped)};
  GM_CO_RETURN_IF_ERROR(co_await walk.add_below("/schemas"));
  co_return std::move(walk.ids);
}

}  // namespace geminga
