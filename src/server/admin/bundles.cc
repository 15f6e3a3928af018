#include "server/admin/bundles.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <charconv>
#include <vector>

namespace geminga {

namespace json = boost::json;

namespace {

constexpr std::uint32_t kTop = 0xffffffff;

std::optional<std::uint32_t> parse_bound(std::string_view text) {
  if (!text.starts_with("0x")) return std::nullopt;
  std::uint32_t bound = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + 2, end, bound, 16);
  if (error != std::errc() || at != end) return std::nullopt;
  return bound;
}

std::string show(std::uint32_t low, std::uint32_t high) {
  return fmt::format("0x{:08x}_0x{:08x}", low, high);
}

std::vector<std::uint32_t> boundaries_of(const json::object& policies) {
  std::vector<std::uint32_t> bounds;
  const json::value* bundles = policies.if_contains("bundles");
  const json::value* list = bundles != nullptr && bundles->is_object()
                                ? bundles->get_object().if_contains("boundaries")
                                : nullptr;
  if (list != nullptr && list->is_array()) {
    for (const json::value& bound : list->get_array()) {
      const auto parsed = bound.is_string() ? parse_bound(std::string_view(bound.get_string()))
                                            : std::optional<std::uint32_t>();
      if (parsed) bounds.push_back(*parsed);
    }
  }
  if (bounds.size() < 2) bounds = {0, kTop};
  return bounds;
}

}  // namespace

json::object even_bundles(std::int64_t count) {
  const std::int64_t step = (std::int64_t{1} << 32) / count;
  json::array boundaries;
  for (std::int64_t i = 0; i < count; ++i)
    boundaries.push_back(json::string(fmt::format("0x{:08x}", step * i)));
  boundaries.push_back("0xffffffff");
  json::object bundles;
  bundles["boundaries"] = std::move(boundaries);
  bundles["numBundles"] = count;
  return bundles;
}

std::string bundle_of(const json::object& policies, std::uint32_t hash) {
  const auto bounds = boundaries_of(policies);
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    if (bundle_holds({bounds[i], bounds[i + 1]}, hash)) return show(bounds[i], bounds[i + 1]);
  }
  return show(0, kTop);
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> parse_bundle(std::string_view range) {
  const std::size_t middle = range.find('_');
  if (middle == std::string_view::npos) return std::nullopt;
  const auto low = parse_bound(range.substr(0, middle));
  const auto high = parse_bound(range.substr(middle + 1));
  if (!low || !high || *low >= *high) return std::nullopt;
  return std::pair(*low, *high);
}

bool bundle_holds(std::pair<std::uint32_t, std::uint32_t> bundle, std::uint32_t hash) {
  return hash >= bundle.first && (hash < bundle.second || bundle.second == kTop);
}

std::string why_no_bundle(const json::object& policies, std::string_view ns,
                          std::string_view range) {
  const auto wanted = parse_bundle(range);
  if (!wanted) return fmt::format("Invalid bundle range {}", range);
  const std::string shown = show(wanted->first, wanted->second);
  const auto bounds = boundaries_of(policies);
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    if (bounds[i] != wanted->first) continue;
    if (bounds[i + 1] == wanted->second) return {};
    return fmt::format("Invalid upper boundary for bundle {}/{}. Expected upper boundary of {}/{}",
                       ns, shown, ns, show(bounds[i], bounds[i + 1]));
  }
  return fmt::format("Cannot find bundle {}/{} in the bundles list", ns, shown);
}

}  // namespace geminga
