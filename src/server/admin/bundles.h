// Bundles: the parts of a namespace's hash range, as its policies list them. Values; any thread.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace geminga {

// {"boundaries": ["0x00000000", ..., "0xffffffff"], "numBundles": count}
boost::json::object even_bundles(std::int64_t count);
// "0x40000000_0x80000000": the bundle of `policies` that holds `hash`.
std::string bundle_of(const boost::json::object& policies, std::uint32_t hash);
// Both ends of "0x40000000_0x80000000".
std::optional<std::pair<std::uint32_t, std::uint32_t>> parse_bundle(std::string_view range);
// Is `hash` inside (the upper end belongs to the last bundle only)?
bool bundle_holds(std::pair<std::uint32_t, std::uint32_t> bundle, std::uint32_t hash);
// Empty if `range` is a bundle of `policies`; else the oracle's text about what is wrong.
std::string why_no_bundle(const boost::json::object& policies, std::string_view ns,
                          std::string_view range);

}  // namespace geminga
