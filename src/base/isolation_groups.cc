#include "base/isolation_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace geminga {

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Takes what stands before `separator` out of `text`.
std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t at = std::min(text.find(separator), text.size());
  const std::string_view part = trimmed(text.substr(0, at));
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

std::optional<unsigned> number(std::string_view text, unsigned most) {
  unsigned value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (text.empty() || read.ec != std::errc() || read.ptr != end || value > most)
    return std::nullopt;
  return value;
}

bool possible_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), fits);
}

Status wrong(std::string_view group, const std::string& what) {
  return Status::InvalidArgument(fmt::format(
      "isolation group '{}': {}; a group is NAME:shards=2+3,port=6651,volume=/path", group, what));
}

Status take_setting(IsolationGroup& group, std::string_view key, std::string_view value) {
  if (key == "shards") {
    while (!value.empty()) {
      const std::string_view part = next_part(value, '+');
      const auto shard = number(part, 1023);
      if (!shard) return wrong(group.name, fmt::format("'{}' is no number of a shard", part));
      if (std::find(group.shards.begin(), group.shards.end(), *shard) != group.shards.end())
        return wrong(group.name, fmt::format("shard {} is named twice", *shard));
      group.shards.push_back(*shard);
    }
    if (group.shards.empty()) return wrong(group.name, "no shards are named");
    return Status::ok();
  }
  if (key == "port") {
    group.port = number(value, 65535);
    if (!group.port) return wrong(group.name, fmt::format("'{}' is no port", value));
    return Status::ok();
  }
  if (key == "volume") {
    if (!value.starts_with('/'))
      return wrong(group.name, fmt::format("volume '{}' is no absolute path", value));
    group.volume = value;
    return Status::ok();
  }
  return wrong(group.name, fmt::format("unknown setting '{}'", key));
}

}  // namespace

Result<std::vector<IsolationGroup>> parse_isolation_groups(std::string_view text) {
  std::vector<IsolationGroup> groups;
  while (!trimmed(text).empty()) {
    std::string_view rest = next_part(text, ';');
    if (rest.empty()) continue;
    IsolationGroup group;
    group.name = next_part(rest, ':');
    if (!possible_name(group.name))
      return wrong(group.name, "its name has 1 to 32 characters of a-z, 0-9 and '-'");
    for (const IsolationGroup& other : groups) {
      if (other.name == group.name) return wrong(group.name, "it is there twice");
    }
    while (!rest.empty()) {
      std::string_view value = next_part(rest, ',');
      const std::string_view key = next_part(value, '=');
      GM_RETURN_IF_ERROR(take_setting(group, key, trimmed(value)));
    }
    groups.push_back(std::move(group));
    if (groups.size() > kMostIsolationGroups)
      return Status::InvalidArgument(
          fmt::format("there are more than {} isolation groups", kMostIsolationGroups));
  }
  return groups;
}

Result<std::vector<unsigned>> shared_shards(const std::vector<IsolationGroup>& groups,
                                            unsigned shard_count) {
  std::vector<bool> taken(shard_count);
  for (const IsolationGroup& group : groups) {
    for (const unsigned shard : group.shards) {
      if (shard >= shard_count) {
        return wrong(group.name, fmt::format("there is no shard {}, only 0 to {} (--shards)", shard,
                                             shard_count - 1));
      }
      taken[shard] = true;
    }
  }
  std::vector<unsigned> left;
  for (unsigned i = 0; i < shard_count; ++i) {
    if (!taken[i]) left.push_back(i);
  }
  if (left.empty()) {
    return Status::InvalidArgument(fmt::format(
        "isolationGroups take all {} shards: one at least must be left for other namespaces",
        shard_count));
  }
  return left;
}

}  // namespace geminga
