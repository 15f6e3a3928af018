#include "server/admin/documents.h"

#include <boost/json/value.hpp>

#include "server/json_text.h"

namespace geminga {

namespace {

constexpr int kMaxRaces = 100;

Result<boost::json::object> parse(const std::string& path, const std::string& text) {
  if (text.empty()) return boost::json::object();  // a parent that was never written itself
  auto value = parse_json(text);
  if (!value || !value->is_object()) {
    return Status::Corruption("the metadata node " + path + " holds no JSON object");
  }
  return std::move(value->get_object());
}

}  // namespace

Task<Result<std::optional<boost::json::object>>> read_document(MetadataStore& store,
                                                               std::string path) {
  auto node = co_await store.get(path);
  if (!node) co_return node.status();
  if (!node->has_value()) co_return std::nullopt;
  auto document = parse(path, (*node)->value);
  if (!document) co_return document.status();
  co_return std::optional<boost::json::object>(std::move(*document));
}

Task<Status> create_document(MetadataStore& store, std::string path, boost::json::object document) {
  MetadataPut options;
  options.expected_version = -1;
  auto put = co_await store.put(path, to_json(document), options);
  if (put.is(ErrorCode::BadVersion)) co_return Status::AlreadyExists(path + " exists already");
  co_return put.status();
}

Task<Status> change_document(MetadataStore& store, std::string path, DocumentChange change,
                             bool create) {
  for (int race = 0; race < kMaxRaces; ++race) {
    auto node = co_await store.get(path);
    if (!node) co_return node.status();
    MetadataPut options;
    options.expected_version = -1;
    boost::json::object document;
    if (node->has_value()) {
      auto parsed = parse(path, (*node)->value);
      if (!parsed) co_return parsed.status();
      document = std::move(*parsed);
      options.expected_version = (*node)->stat.version;
    } else if (!create) {
      co_return Status::NotFound(path + " does not exist");
    }
    Status changed = change(document);
    if (!changed) co_return changed;
    auto put = co_await store.put(path, to_json(document), options);
    if (!put.is(ErrorCode::BadVersion)) co_return put.status();
  }
  co_return Status::Conflict(path + " is being changed by too many others; try again");
}

}  // namespace geminga
