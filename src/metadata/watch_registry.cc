#include "metadata/watch_registry.h"

#include <cassert>
#include <string_view>
#include <unordered_map>

#include "metadata/key_layout.h"

namespace geminga {

class WatchRegistry::Watch : public MetadataWatch {
 public:
  Watch(std::shared_ptr<WatchRegistry> registry, std::string prefix, std::shared_ptr<State> state)
      : registry_(std::move(registry)), prefix_(std::move(prefix)), state_(std::move(state)) {}
  ~Watch() override {
    state_->alive = false;
    registry_->remove(prefix_, state_.get());
  }

 private:
  std::shared_ptr<WatchRegistry> registry_;
  std::string prefix_;
  std::shared_ptr<State> state_;
};

std::unique_ptr<MetadataWatch> WatchRegistry::add(std::string prefix, OnEvent on_event) {
  auto state = std::make_shared<State>();
  state->shard = Shard::current();
  assert(state->shard != nullptr);
  state->on_event = std::move(on_event);
  {
    const std::lock_guard lock(mutex_);
    watches_.emplace(prefix, state);
  }
  return std::make_unique<Watch>(shared_from_this(), std::move(prefix), std::move(state));
}

void WatchRegistry::remove(const std::string& prefix, const State* state) {
  const std::lock_guard lock(mutex_);
  const auto [from, to] = watches_.equal_range(prefix);
  for (auto at = from; at != to; ++at) {
    if (at->second.get() == state) {
      watches_.erase(at);
      return;
    }
  }
}

void WatchRegistry::publish(const std::vector<MetadataEvent>& events) {
  // A watch sees an event if its prefix is the event's path or one of its ancestors.
  std::unordered_map<State*, std::pair<std::shared_ptr<State>, std::vector<MetadataEvent>>> out;
  {
    const std::lock_guard lock(mutex_);
    if (watches_.empty()) return;
    for (const MetadataEvent& event : events) {
      std::string_view prefix = event.path;
      while (true) {
        const auto [from, to] =
            watches_.equal_range(prefix.empty() ? std::string_view("/") : prefix);
        for (auto at = from; at != to; ++at) {
          auto& [state, seen] = out[at->second.get()];
          state = at->second;
          seen.push_back(event);
        }
        if (prefix.empty() || prefix == "/") break;
        prefix = metadata_keys::parent_of(prefix);
      }
    }
  }
  for (auto& [unused, entry] : out) {
    Shard* shard = entry.first->shard;
    shard->post([state = std::move(entry.first), seen = std::move(entry.second)] {
      for (const MetadataEvent& event : seen) {
        if (!state->alive) return;
        state->on_event(event);
      }
    });
  }
}

}  // namespace geminga
