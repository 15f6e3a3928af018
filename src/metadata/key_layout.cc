#include "metadata/key_layout.h"

#include "base/endian.h"

namespace geminga::metadata_keys {

namespace {

constexpr std::uint8_t kNodeVersion = 1;
constexpr std::uint8_t kEphemeralFlag = 1;
constexpr std::uint8_t kContainerFlag = 2;
constexpr std::size_t kNodeHeader = 26;
constexpr std::size_t kCountersSize = 16;

std::string invalid(std::string_view path, const char* why) {
  return "metadata path '" + std::string(path.substr(0, 256)) + "' " + why;
}

// Paths in keys have no final slash: the root is "".
std::string_view key_form(std::string_view path) { return path == "/" ? std::string_view() : path; }

std::string prefixed(char kind, std::string_view path, std::string_view end) {
  std::string key;
  key.reserve(1 + path.size() + end.size());
  key += kind;
  key += key_form(path);
  key += end;
  return key;
}

Status corrupt(std::string_view path, const char* what) {
  return Status::Corruption("the metadata record of '" + std::string(path) + "' " + what);
}

}  // namespace

Status check_path(std::string_view path) {
  if (path.empty() || path[0] != '/')
    return Status::InvalidArgument(invalid(path, "must begin with '/'"));
  if (path.size() > kMaxPath) {
    return Status::InvalidArgument(invalid(path, "is longer than 8192 bytes"));
  }
  if (path == "/") return {};
  std::size_t begin = 1;
  while (true) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    if (segment.empty()) return Status::InvalidArgument(invalid(path, "has an empty segment"));
    if (segment == "." || segment == "..") {
      return Status::InvalidArgument(invalid(path, "has a segment '.' or '..'"));
    }
    if (segment.find('\0') != std::string_view::npos) {
      return Status::InvalidArgument(invalid(path, "has a zero byte"));
    }
    if (end == path.size()) return {};
    begin = end + 1;
  }
}

std::string_view parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string node_key(std::string_view path) {
  std::string key = prefixed('n', parent_of(path), std::string_view("\0", 1));
  key += name_of(path);
  return key;
}

std::string node_path(std::string_view key) {
  std::string path(key.substr(1));
  const std::size_t zero = path.find('\0');
  if (zero != std::string::npos) path[zero] = '/';
  return path;
}

std::string children_prefix(std::string_view path) {
  return prefixed('n', path, std::string_view("\0", 1));
}
std::string deeper_prefix(std::string_view path) { return prefixed('n', path, "/"); }
std::string counters_key(std::string_view path) { return prefixed('c', path, ""); }
std::string ephemeral_key(std::string_view path) { return prefixed(kEphemeralPrefix, path, ""); }

std::string encode(const NodeRecord& node) {
  std::string bytes(kNodeHeader, '\0');
  bytes[0] = static_cast<char>(kNodeVersion);
  bytes[1] = static_cast<char>((node.stat.ephemeral ? kEphemeralFlag : 0) |
                               (node.container ? kContainerFlag : 0));
  store_be64(&bytes[2], static_cast<std::uint64_t>(node.stat.version));
  store_be64(&bytes[10], static_cast<std::uint64_t>(node.stat.created_ms));
  store_be64(&bytes[18], static_cast<std::uint64_t>(node.stat.modified_ms));
  bytes += node.value;
  return bytes;
}

Result<NodeRecord> decode_node(std::string_view path, std::string_view bytes) {
  if (bytes.size() < kNodeHeader) return corrupt(path, "is cut short");
  if (static_cast<std::uint8_t>(bytes[0]) != kNodeVersion)
    return corrupt(path, "has an unknown version");
  const auto flags = static_cast<std::uint8_t>(bytes[1]);
  if ((flags & ~(kEphemeralFlag | kContainerFlag)) != 0) return corrupt(path, "has unknown flags");
  NodeRecord node;
  node.stat.ephemeral = (flags & kEphemeralFlag) != 0;
  node.container = (flags & kContainerFlag) != 0;
  node.stat.version = static_cast<std::int64_t>(load_be64(&bytes[2]));
  node.stat.created_ms = static_cast<std::int64_t>(load_be64(&bytes[10]));
  node.stat.modified_ms = static_cast<std::int64_t>(load_be64(&bytes[18]));
  node.value = bytes.substr(kNodeHeader);
  return node;
}

std::string encode(const Counters& counters) {
  std::string bytes(kCountersSize, '\0');
  store_be64(&bytes[0], counters.children);
  store_be64(&bytes[8], counters.next_sequence);
  return bytes;
}

Result<Counters> decode_counters(std::string_view path, std::string_view bytes) {
  if (bytes.size() != kCountersSize) return corrupt(path, "(its counters) has a wrong size");
  return Counters{load_be64(&bytes[0]), load_be64(&bytes[8])};
}

}  // namespace geminga::metadata_keys
