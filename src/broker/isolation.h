// Which namespaces are bound to which isolation group, that is, to logs and shards of their own
// (see docs/guides/isolation.md). The binding is the property "isolation" of the namespace's
// policies; here is what the broker goes by, so that the place of a topic is known without reading
// metadata.
//
// A topic's data cannot move between logs, so a binding changes only while the namespace holds no
// topic and no schema. That is proved under a mark: from then on nothing can be created in the
// namespace until the change is over, and what had begun before is waited for.
//
// Owned by the Broker; any shard. Nothing is shared by shards on the path of a message: places are
// asked for when topics are loaded and clients come.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "metadata/metadata_store.h"
#include "runtime/task.h"

namespace geminga {

class Isolation {
 public:
  static constexpr std::string_view kProperty = "isolation";

  // Topics and schemas of a namespace, loaded or stored.
  using Contents = std::function<Task<Result<std::vector<std::string>>>(std::string name_space)>;

  // `groups`: the names by number; 0, of namespaces without a group, is empty. `metadata` outlives
  // it.
  Isolation(MetadataStore& metadata, std::vector<std::string> groups, Contents contents);

  // Reads the bindings of all namespaces; before anything is served. Without groups it reads
  // nothing.
  Task<Status> open();

  const std::vector<std::string>& groups() const { return groups_; }
  // "tenant/ns"; 0: none.
  unsigned group_of(std::string_view name_space) const;

  // What creates something in a namespace holds this meanwhile.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept : holds_(std::exchange(other.holds_, nullptr)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(holds_, other.holds_);
      return *this;
    }
    ~Hold() {
      if (holds_ != nullptr) holds_->fetch_sub(1);
    }

   private:
    friend class Isolation;
    explicit Hold(std::atomic<int>* holds) : holds_(holds) {}
    std::atomic<int>* holds_ = nullptr;
  };
  // ServiceNotReady while the binding changes.
  Result<Hold> hold(std::string_view name_space);

  // Before the policies of the namespace are written: `group` is the value that the property will
  // have, empty for none. PreconditionFailed: no such group, or the namespace holds topics or
  // schemas; Conflict: another change is under way. If it is OK, settle() must follow.
  Task<Status> prepare(std::string name_space, std::string group);
  // After the policies were written, or could not be, or the namespace was deleted: goes by what
  // they say now.
  Task<void> settle(std::string name_space);

 private:
  struct Binding {
    unsigned group = 0;
    bool changing = false;
  };
  using Bindings = std::map<std::string, Binding, std::less<>>;

  Result<unsigned> number_of(const std::string& group) const;
  Task<Result<unsigned>> stored(std::string name_space) const;
  void put(const std::string& name_space, Binding binding);
  Task<Status> prove_empty(std::string name_space);

  MetadataStore& metadata_;
  const std::vector<std::string> groups_;
  const Contents contents_;
  std::atomic<int> holds_{0};
  std::atomic<std::shared_ptr<const Bindings>> bindings_{std::make_shared<const Bindings>()};
};

}  // namespace geminga
