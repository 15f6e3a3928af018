// For tests: decides which operation of the in-memory stores fails, and how. One object shared by
// both stores, so that "the n-th step of anything" can be cut. On one shard only.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"

namespace geminga::testing {

struct Fault {
  Status status;
  bool applied = false;  // the operation took effect although it is reported as failed
};

class Faults {
 public:
  // Asked for every operation: `op` ("put", "get", "remove", "commit", "children", "create",
  // "open", "seal", "append", "read", "remove_ledger") and its path or ledger id. A fault, or
  // nothing.
  std::function<std::optional<Fault>(const std::string& op, const std::string& what)> decide;

  // A crash at step `n` from now (0: the next operation): that one fails, applied or not, and so
  // does everything after it without any effect.
  void crash_at(int n, bool applied) {
    left_ = n;
    applied_ = applied;
    dead_ = false;
  }
  bool crashed() const { return dead_; }
  void heal() {
    left_ = -1;
    dead_ = false;
    decide = nullptr;
  }
  int steps() const { return steps_; }

  std::optional<Fault> next(const std::string& op, const std::string& what) {
    ++steps_;
    if (dead_) return Fault{Status::Io("crashed before"), false};
    if (left_ == 0) {
      dead_ = true;
      return Fault{Status::Io("crashed at " + op + " " + what), applied_};
    }
    if (left_ > 0) --left_;
    return decide ? decide(op, what) : std::nullopt;
  }

 private:
  int left_ = -1;
  bool applied_ = false;
  bool dead_ = false;
  int steps_ = 0;
};

}  // namespace geminga::testing
