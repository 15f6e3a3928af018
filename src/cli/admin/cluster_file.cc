#include "cli/admin/cluster_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <fstream>
#include <string_view>

namespace geminga::admin_cli {

namespace json = boost::json;

namespace {

constexpr std::size_t kLargest = 1 << 20;

constexpr std::string_view kTexts[] = {
    "serviceUrl",
    "serviceUrlTls",
    "brokerServiceUrl",
    "brokerServiceUrlTls",
    "proxyServiceUrl",
    "proxyProtocol",
    "authenticationPlugin",
    "authenticationParameters",
    "brokerClientTlsTrustStoreType",
    "brokerClientTlsTrustStore",
    "brokerClientTlsTrustStorePassword",
    "brokerClientTlsKeyStoreType",
    "brokerClientTlsKeyStore",
    "brokerClientTlsKeyStorePassword",
    "brokerClientTrustCertsFilePath",
    "brokerClientKeyFilePath",
    "brokerClientCertificateFilePath",
    "brokerClientSslFactoryPlugin",
    "brokerClientSslFactoryPluginParams",
    "listenerName",
};
constexpr std::string_view kFlags[] = {
    "brokerClientTlsEnabled",
    "tlsAllowInsecureConnection",
    "brokerClientTlsEnabledWithKeyStore",
};
constexpr std::string_view kLists[] = {"peerClusterNames"};

template <std::size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Status refuse(const std::string& file, const YAML::Mark& at, const std::string& what) {
  return Status::InvalidArgument(fmt::format("{}, line {}: {}", file, at.line + 1, what));
}

Result<json::value> value_of(const std::string& file, const std::string& name,
                             const YAML::Node& node) {
  if (among(kTexts, name)) {
    if (!node.IsScalar()) return refuse(file, node.Mark(), name + " is not a text");
    return json::value(node.Scalar());
  }
  if (among(kFlags, name)) {
    bool on = false;
    if (!node.IsScalar() || !YAML::convert<bool>::decode(node, on))
      return refuse(file, node.Mark(), name + " is not true or false");
    return json::value(on);
  }
  if (!among(kLists, name)) return refuse(file, node.Mark(), name + " is no member of a cluster");
  json::array list;
  if (!node.IsSequence()) return refuse(file, node.Mark(), name + " is not a list");
  for (const YAML::Node& each : node) {
    if (!each.IsScalar()) return refuse(file, each.Mark(), name + " is not a list of texts");
    list.emplace_back(each.Scalar());
  }
  return json::value(std::move(list));
}

}  // namespace

Result<json::object> parse_cluster_file(const std::string& text, const std::string& name) {
  // The library tells its errors by exceptions; none leaves this function.
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) return Status::InvalidArgument(name + ": holds no \"member: value\" lines");
    json::object found;
    for (const auto& member : root) {
      const std::string key = member.first.IsScalar() ? member.first.Scalar() : std::string("?");
      if (member.second.IsNull()) continue;
      GM_ASSIGN_OR_RETURN(found[key], value_of(name, key, member.second));
    }
    return found;
  } catch (const YAML::Exception& error) {
    return refuse(name, error.mark, "no YAML: " + error.msg);
  }
}

Result<json::object> read_cluster_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargest + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) return Status::Io("cannot read " + path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLargest) return Status::InvalidArgument(path + " has more than 1 MiB");
  return parse_cluster_file(text, path);
}

}  // namespace geminga::admin_cli
