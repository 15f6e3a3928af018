// The pattern of a pattern consumer: a regular expression over topic names, as Java writes it.
// Names are compared without domain and without "-partition-N", and must match as a whole. RE2
// reads most patterns, in linear time; what it does not know (look-ahead, back references) is left
// to a backtracking engine with a bounded effort. Values; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace geminga {

class TopicsPattern {
 public:
  // InvalidArgument with the reason. `text` may start with a domain
  // ("persistent://public/default/foo-.*").
  static Result<TopicsPattern> compile(std::string_view text);
  // Of what is compared: the limit of a watch does not count the domain.
  static std::size_t length(std::string_view text);

  bool matches(std::string_view topic) const;
  // Any text, as it is (the names of brokers in isolation policies).
  bool matches_text(std::string_view text) const;

 private:
  struct Compiled;
  explicit TopicsPattern(std::shared_ptr<const Compiled> compiled)
      : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace geminga
