#define BOOST_REGEX_MAX_STATE_COUNT 100000
#include "broker/topics_pattern.h"

#include <re2/re2.h>

#include <boost/regex.hpp>
#include <optional>

#include "broker/topic_name.h"

namespace geminga {

struct TopicsPattern::Compiled {
  std::unique_ptr<RE2> linear;
  std::optional<boost::regex> backtracking;
};

namespace {

// "persistent://a/b/c" becomes "a/b/c"; a leading ^ stays.
std::string without_domain(std::string_view text) {
  std::string out;
  if (text.starts_with('^')) {
    out = "^";
    text.remove_prefix(1);
  }
  for (const std::string_view domain : {"persistent://", "non-persistent://"}) {
    if (text.starts_with(domain)) {
      text.remove_prefix(domain.size());
      break;
    }
  }
  // Java quotes the dots of a name given literally as \Q..\E; both engines know that too.
  out += text;
  return out;
}

}  // namespace

Result<TopicsPattern> TopicsPattern::compile(std::string_view text) {
  const std::string expression = without_domain(text);
  auto compiled = std::make_shared<Compiled>();
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(1 << 20);
  compiled->linear = std::make_unique<RE2>(expression, options);
  if (!compiled->linear->ok()) {
    try {
      compiled->backtracking.emplace(expression, boost::regex::perl);
    } catch (const boost::regex_error&) {
      return Status::InvalidArgument(compiled->linear->error());
    }
    compiled->linear.reset();
  }
  return TopicsPattern(std::move(compiled));
}

std::size_t TopicsPattern::length(std::string_view text) { return without_domain(text).size(); }

bool TopicsPattern::matches(std::string_view topic) const {
  const Result<TopicName> name = TopicName::parse(topic);
  if (!name) return false;
  const std::string base = name->base_full();
  return matches_text(std::string_view(base).substr(base.find("://") + 3));
}

bool TopicsPattern::matches_text(std::string_view compared) const {
  if (compiled_->linear != nullptr) {
    return RE2::FullMatch(re2::StringPiece(compared.data(), compared.size()), *compiled_->linear);
  }
  try {
    return boost::regex_match(compared.begin(), compared.end(), *compiled_->backtracking);
  } catch (const std::runtime_error&) {
    return false;  // the effort was over its bound
  }
}

}  // namespace geminga
