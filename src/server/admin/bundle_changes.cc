// Bundles of a namespace: splitting them, emptying them, and where topics lie in them.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>

#include "base/config.h"
#include "server/admin/admin.h"
#include "server/admin/bundles.h"
#include "server/admin/namespace_change.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr std::string_view kAlgorithms[] = {"range_equally_divide", "topic_count_equally_divide",
                                            "specified_positions_divide",
                                            "flow_or_qps_equally_divide"};

struct HashedTopic {
  TopicName name;
  std::uint32_t hash;
};

// All topics of the namespace, also those of the broker's own.
Task<Result<std::vector<HashedTopic>>> topics_in(Admin& admin, NamespaceName ns) {
  auto names = co_await admin.broker.list_topics(ns.full(), true, true, true);
  if (!names) co_return names.status();
  std::vector<HashedTopic> topics;
  for (const std::string& text : *names) {
    auto name = TopicName::parse(text);
    if (!name) continue;
    const std::uint32_t hash = name->bundle_hash();
    topics.push_back({std::move(*name), hash});
  }
  co_return topics;
}

// What {bundle} stands for: a range that must be a bundle, or the one with most topics.
struct ChosenBundle {
  NamespaceName ns;
  std::string range;
  std::pair<std::uint32_t, std::uint32_t> bounds;
  std::vector<HashedTopic> topics;  // those inside
};

std::string largest(const json::object& policies, const std::vector<HashedTopic>& topics) {
  std::map<std::string, std::size_t> counts;
  for (const HashedTopic& topic : topics) ++counts[bundle_of(policies, topic.hash)];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? bundle_of(policies, 0) : most->first;
}

Task<Result<ChosenBundle>> chosen(Admin& admin, HttpRequest& request) {
  auto policies = co_await namespace_document(admin, request);
  if (!policies) co_return policies.status();
  auto ns = namespace_of(request);
  std::string range = request.param("bundle");
  // Nothing measures the load of single bundles here, so none is hot.
  if (range == "HOT") co_return Status::NotFound("Bundle range HOT not found");
  auto topics = co_await topics_in(admin, *ns);
  if (!topics) co_return topics.status();
  if (range == "LARGEST") range = largest(*policies, *topics);
  const std::string wrong = why_no_bundle(*policies, ns->full(), range);
  if (!wrong.empty()) co_return Status::PreconditionFailed(wrong);
  ChosenBundle bundle{*ns, range, *parse_bundle(range), {}};
  for (HashedTopic& topic : *topics) {
    if (bundle_holds(bundle.bounds, topic.hash)) bundle.topics.push_back(std::move(topic));
  }
  co_return bundle;
}

// Where the bundle is cut; empty: it cannot be cut so.
Result<std::vector<std::uint32_t>> cuts(const ChosenBundle& bundle, std::string_view algorithm,
                                        const json::value& body) {
  const auto [low, high] = bundle.bounds;
  std::vector<std::uint32_t> at;
  if (algorithm == "specified_positions_divide") {
    if (!body.is_array())
      return Status::PreconditionFailed("specified_positions_divide needs a list of positions");
    for (const json::value& position : body.get_array()) {
      if (!position.is_int64()) return Status::Protocol("a position is a number");
      const std::int64_t value = position.get_int64();
      if (value > low && value < high) at.push_back(static_cast<std::uint32_t>(value));
    }
  } else if (algorithm == "topic_count_equally_divide") {
    std::vector<std::uint32_t> hashes;
    for (const HashedTopic& topic : bundle.topics) hashes.push_back(topic.hash);
    std::sort(hashes.begin(), hashes.end());
    if (hashes.size() > 1) {
      const std::size_t half = hashes.size() / 2;
      at.push_back(hashes[half - 1] / 2 + hashes[half] / 2 + (hashes[half - 1] & hashes[half] & 1));
    }
  } else if (high - low > 1) {
    // By load, too: nothing measures it here, and halves are what is left.
    at.push_back(low + (high - low) / 2 + (high == 0xffffffff ? 1 : 0));
  }
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  std::erase_if(at, [&](std::uint32_t cut) { return cut <= low || cut >= high; });
  return at;
}

Status insert_cuts(json::object& policies, const ChosenBundle& bundle,
                   const std::vector<std::uint32_t>& at) {
  const std::string wrong = why_no_bundle(policies, bundle.ns.full(), bundle.range);
  if (!wrong.empty()) return Status::PreconditionFailed(wrong);  // split meanwhile
  json::array boundaries;
  json::object& bundles = object_in(policies, "bundles");
  const json::value* before = bundles.if_contains("boundaries");
  if (before == nullptr || !before->is_array())
    return Status::Corruption("the bundles of " + bundle.ns.full() + " have no boundaries");
  const std::string low = bundle.range.substr(0, bundle.range.find('_'));
  for (const json::value& bound : before->get_array()) {
    boundaries.push_back(bound);
    if (!bound.is_string() || bound.get_string() != low) continue;
    for (const std::uint32_t cut : at)
      boundaries.push_back(json::string(fmt::format("0x{:08x}", cut)));
  }
  bundles["numBundles"] = static_cast<std::int64_t>(boundaries.size() - 1);
  bundles["boundaries"] = std::move(boundaries);
  return Status::ok();
}

Task<Status> unload_all(Admin& admin, std::vector<HashedTopic> topics) {
  for (const HashedTopic& topic : topics) {
    Status unloaded = co_await admin.broker.unload_topic(topic.name);
    if (!unloaded && !unloaded.is(ErrorCode::TopicNotFound) && !unloaded.is(ErrorCode::NotFound))
      co_return unloaded;
  }
  co_return Status::ok();
}

Answer split(Admin& admin, HttpRequest& request) {
  JsonBody body = json_body(request, EmptyBody::Allowed);
  if (body.refusal) co_return std::move(*body.refusal);
  const std::string algorithm(request.query_value("splitAlgorithmName").value_or(kAlgorithms[0]));
  if (std::find(std::begin(kAlgorithms), std::end(kAlgorithms), algorithm) ==
      std::end(kAlgorithms)) {
    co_return Status::PreconditionFailed(
        fmt::format("Unsupported namespace bundle split algorithm, supported algorithms are [{}]",
                    fmt::join(kAlgorithms, ", ")));
  }
  auto bundle = co_await chosen(admin, request);
  if (!bundle) co_return bundle.status();
  auto at = cuts(*bundle, algorithm, body.value);
  if (!at) co_return refusal_of(at.status());
  if (at->empty()) co_return no_content();  // it stays whole, as in the original
  const ChosenBundle& whole = *bundle;
  const std::vector<std::uint32_t>& positions = *at;
  DocumentChange change = [&whole, &positions](json::object& policies) {
    return insert_cuts(policies, whole, positions);
  };
  auto changed = co_await change_namespace(admin, request, std::move(change));
  if (!changed || !request.query_flag("unload", false)) co_return changed;
  Status unloaded = co_await unload_all(admin, std::move(bundle->topics));
  if (!unloaded) co_return unloaded;
  co_return changed;
}

// Deletes what is in it; its range stays one of the namespace's.
Answer remove(Admin& admin, HttpRequest& request) {
  const bool force = request.query_flag("force", false);
  if (force && !admin.live()->force_delete_namespace_allowed)
    co_return Status::NotAllowed("Broker doesn't allow forced deletion of namespaces");
  auto bundle = co_await chosen(admin, request);
  if (!bundle) co_return bundle.status();
  const bool used = std::any_of(bundle->topics.begin(), bundle->topics.end(),
                                [](const HashedTopic& topic) { return !topic.name.is_system(); });
  if (used && !force) co_return Status::Conflict("Cannot delete non empty bundle");
  for (const HashedTopic& topic : bundle->topics) {
    Status deleted = co_await admin.broker.delete_topic(topic.name, true);
    if (!deleted && !deleted.is(ErrorCode::TopicNotFound) && !deleted.is(ErrorCode::NotFound))
      co_return deleted;
  }
  co_return no_content();
}

Answer positions(Admin& admin, HttpRequest& request) {
  auto bundle = co_await chosen(admin, request);
  if (!bundle) co_return bundle.status();
  std::vector<TopicName> wanted;  // empty: all
  for (const auto& [key, value] : request.query) {
    if (key != "topics") continue;
    for (std::size_t from = 0; from <= value.size();) {
      const std::size_t end = std::min(value.find(',', from), value.size());
      if (end > from) {
        auto name = TopicName::parse(value.substr(from, end - from));
        if (!name) co_return Status::PreconditionFailed(name.status().message());
        wanted.push_back(std::move(*name));
      }
      from = end + 1;
    }
  }
  json::object found;
  for (const HashedTopic& topic : bundle->topics) {
    if (wanted.empty()) found[topic.name.full()] = topic.hash;
  }
  for (const TopicName& name : wanted) {
    const std::uint32_t hash = name.bundle_hash();
    if (bundle_holds(bundle->bounds, hash)) found[name.full()] = hash;
  }
  json::object out;
  out["namespace"] = bundle->ns.full();
  out["bundle"] = bundle->range;
  out["topicHashPositions"] = std::move(found);
  co_return json_answer(out);
}

#define GM_BUNDLE "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}"
constexpr AdminRoute kRoutes[] = {
    {HttpMethod::Put, GM_BUNDLE "/split", "Split a bundle", split},
    {HttpMethod::Delete, GM_BUNDLE, "Delete the topics of a bundle", remove},
    {HttpMethod::Get, GM_BUNDLE "/topicHashPositions", "Where the topics of a bundle lie in it",
     positions},
};

}  // namespace

void add_bundle_routes(HttpRouter& router, Admin& admin) { add_routes(router, admin, kRoutes); }

}  // namespace geminga
