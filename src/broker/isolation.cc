#include "broker/isolation.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "base/log.h"
#include "runtime/async.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr int kWaits = 5000;  // for what had begun; a millisecond each

// The property in stored policies; empty if there is none.
std::string property_of(const std::string& policies) {
  boost::system::error_code error;
  const json::value document = json::parse(policies, error);
  if (error || !document.is_object()) return {};
  const json::value* properties = document.get_object().if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return {};
  const json::value* found = properties->get_object().if_contains(Isolation::kProperty);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
}

}  // namespace

Isolation::Isolation(MetadataStore& metadata, std::vector<std::string> groups, Contents contents)
    : metadata_(metadata), groups_(std::move(groups)), contents_(std::move(contents)) {}

Result<unsigned> Isolation::number_of(const std::string& group) const {
  const auto at = std::find(groups_.begin(), groups_.end(), group);
  if (at != groups_.end()) return static_cast<unsigned>(at - groups_.begin());
  std::string known;
  for (const std::string& name : groups_) {
    if (!name.empty()) known += (known.empty() ? "" : ", ") + name;
  }
  return Status::PreconditionFailed(
      fmt::format("There is no isolation group '{}'; the setting isolationGroups names: {}", group,
                  known.empty() ? "none" : known));
}

Task<Result<unsigned>> Isolation::stored(std::string name_space) const {
  const auto found = co_await metadata_.get("/admin/policies/" + name_space);
  if (!found) co_return found.status();
  if (!found->has_value()) co_return 0U;
  co_return number_of(property_of((*found)->value));
}

Task<Status> Isolation::open() {
  if (groups_.size() < 2) co_return Status::ok();
  auto tenants = co_await metadata_.children("/admin/policies");
  if (!tenants) co_return tenants.status();
  std::vector<std::string> below = std::move(*tenants);
  auto bindings = std::make_shared<Bindings>();
  // Namespaces of the old form are one level deeper.
  for (int depth = 0; depth < 2; ++depth) {
    std::vector<std::string> next;
    for (const std::string& parent : below) {
      auto names = co_await metadata_.children("/admin/policies/" + parent);
      if (!names) co_return names.status();
      for (const std::string& name : *names) {
        std::string name_space = parent + "/" + name;
        const auto group = co_await stored(name_space);
        if (group && *group != 0) (*bindings)[name_space] = {*group, false};
        if (!group && !group.is(ErrorCode::PreconditionFailed)) co_return group.status();
        if (!group) GM_LOG_WARN("namespace {}: {}", name_space, group.status().message());
        next.push_back(std::move(name_space));
      }
    }
    below = std::move(next);
  }
  bindings_.store(std::move(bindings));
  co_return Status::ok();
}

unsigned Isolation::group_of(std::string_view name_space) const {
  if (groups_.size() < 2) return 0;
  const auto bindings = bindings_.load();
  const auto at = bindings->find(name_space);
  return at == bindings->end() ? 0 : at->second.group;
}

Result<Isolation::Hold> Isolation::hold(std::string_view name_space) {
  if (groups_.size() < 2) return Hold();
  // Counted before it looks: prepare() marks before it looks at the count.
  holds_.fetch_add(1);
  Hold held(&holds_);
  const auto bindings = bindings_.load();
  const auto at = bindings->find(name_space);
  if (at == bindings->end() || !at->second.changing) return held;
  return Status::ServiceNotReady(
      fmt::format("the isolation of namespace {} is being changed; try again", name_space));
}

void Isolation::put(const std::string& name_space, Binding binding) {
  auto now = bindings_.load();
  for (;;) {
    auto next = std::make_shared<Bindings>(*now);
    if (binding.group == 0 && !binding.changing) {
      next->erase(name_space);
    } else {
      (*next)[name_space] = binding;
    }
    if (bindings_.compare_exchange_strong(now, std::move(next))) return;
  }
}

Task<Status> Isolation::prepare(std::string name_space, std::string group) {
  const Result<unsigned> wanted = number_of(group);
  if (!wanted) co_return wanted.status();
  if (group_of(name_space) == *wanted) co_return Status::ok();
  if (name_space.starts_with("pulsar/")) {
    co_return Status::PreconditionFailed("Namespaces of the tenant pulsar cannot be isolated");
  }
  auto now = bindings_.load();
  for (;;) {
    auto next = std::make_shared<Bindings>(*now);
    Binding& binding = (*next)[name_space];
    if (binding.changing) {
      co_return Status::Conflict(
          fmt::format("The isolation of namespace {} is being changed already", name_space));
    }
    binding.changing = true;
    if (bindings_.compare_exchange_strong(now, std::move(next))) break;
  }
  const Status empty = co_await prove_empty(name_space);
  if (!empty) put(name_space, {group_of(name_space), false});
  co_return empty;
}

Task<Status> Isolation::prove_empty(std::string name_space) {
  // Of all namespaces together: topics are loaded and schemas stored in milliseconds.
  for (int i = 0; holds_.load() > 0; ++i) {
    if (i == kWaits)
      co_return Status::Timeout("topics are being loaded for a long time; try again");
    co_await sleep_for(Millis(1));
  }
  const auto contents = co_await contents_(name_space);
  if (!contents) co_return contents.status();
  if (contents->empty()) co_return Status::ok();
  co_return Status::PreconditionFailed(fmt::format(
      "The isolation of namespace {} can only be changed while it holds no topics and schemas; it "
      "holds {} ({}{})",
      name_space, contents->size(), contents->front(), contents->size() > 1 ? ", ..." : ""));
}

Task<void> Isolation::settle(std::string name_space) {
  if (groups_.size() < 2) co_return;
  const Result<unsigned> group = co_await stored(name_space);
  if (group || group.is(ErrorCode::PreconditionFailed)) {
    put(name_space, {group ? *group : 0, false});
    co_return;
  }
  // Which group it has is not known: nothing may be created until it is, at the latest at the next
  // start.
  GM_LOG_ERROR("namespace {}: its isolation cannot be read, nothing can be created in it: {}",
               name_space, group.status().to_string());
  put(name_space, {group_of(name_space), true});
}

}  // namespace geminga
