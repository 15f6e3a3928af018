#include "broker/topic_name.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/url_encoding.h"

namespace geminga {

namespace {

constexpr std::string_view kPartitionSuffix = "-partition-";
constexpr std::string_view kScheme = "://";

bool is_entity_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '=' || c == ':' || c == '.';
}

bool only_entity_chars(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_entity_char);
}

// Empty or nothing but what Java calls whitespace, in UTF-8.
bool is_blank(std::string_view text) {
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    if (c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F)) {
      text.remove_prefix(1);
      continue;
    }
    if (text.size() < 3) return false;
    const auto d = static_cast<unsigned char>(text[1]);
    const auto e = static_cast<unsigned char>(text[2]);
    const bool space =
        (c == 0xE1 && d == 0x9A && e == 0x80) ||                            // U+1680
        (c == 0xE2 && d == 0x80 && e >= 0x80 && e <= 0x8A && e != 0x87) ||  // U+2000...
        (c == 0xE2 && d == 0x80 && (e == 0xA8 || e == 0xA9)) ||             // U+2028/9
        (c == 0xE2 && d == 0x81 && e == 0x9F) ||                            // U+205F
        (c == 0xE3 && d == 0x80 && e == 0x80);                              // U+3000
    if (!space) return false;
    text.remove_prefix(3);
  }
  return true;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(x) == lower(y);
  });
}

// Parts between slashes, empty ones kept; the last of `limit` parts takes the rest.
std::vector<std::string_view> split(std::string_view text, std::size_t limit) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < limit) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) break;
    parts.push_back(text.substr(0, slash));
    text.remove_prefix(slash + 1);
  }
  parts.push_back(text);
  return parts;
}

std::string quoted_text(std::string_view before, std::string_view text, std::string_view after) {
  std::string out(before);
  out += text;
  out += after;
  return out;
}

// Checks the parts of a namespace in the order, and with the texts, of Pulsar's NamespaceName.
Status check_namespace(std::string_view tenant, std::string_view cluster, bool v1,
                       std::string_view ns) {
  if (tenant.empty() || ns.empty() || (v1 && cluster.empty())) {
    std::string text(tenant);
    text += '/';
    if (v1) text.append(cluster).append("/");
    text += ns;
    return Status::InvalidTopicName("Invalid namespace format. namespace: " + text);
  }
  for (const std::string_view part : {tenant, cluster, ns}) {
    if (!only_entity_chars(part)) {
      return Status::InvalidTopicName(quoted_text("Invalid named entity: ", part, ""));
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(TopicDomain domain) {
  return domain == TopicDomain::Persistent ? "persistent" : "non-persistent";
}

bool is_valid_entity_name(std::string_view name) {
  return !name.empty() && only_entity_chars(name);
}

Result<NamespaceName> NamespaceName::parse(std::string_view text) {
  if (text.empty()) return Status::InvalidArgument("Invalid null namespace: ");
  const auto parts = split(text, 4);
  const bool valid = (parts.size() == 2 || parts.size() == 3) &&
                     std::all_of(parts.begin(), parts.end(), is_valid_entity_name);
  if (!valid) {
    return Status::InvalidArgument(quoted_text(
        "Invalid namespace format. expected <tenant>/<namespace> or <tenant>/<cluster>/<namespace> "
        "but got: ",
        text, ""));
  }
  return NamespaceName(std::string(text), parts[0].size(), text.size() - parts.back().size());
}

Result<NamespaceName> NamespaceName::of(std::string_view tenant, std::string_view local) {
  std::string full(tenant);
  full += '/';
  full += local;
  return parse(full);
}

std::string_view NamespaceName::cluster() const {
  if (!is_v1()) return {};
  return std::string_view(full_).substr(tenant_size_ + 1, local_at_ - tenant_size_ - 2);
}

Result<TopicName> TopicName::parse(std::string_view text) { return parse_complete(text, false); }

Result<TopicName> TopicName::parse_lenient(std::string_view text) {
  return parse_complete(text, true);
}

Result<TopicName> TopicName::of(TopicDomain domain, const NamespaceName& ns,
                                std::string_view local) {
  std::string text(to_string(domain));
  text.append(kScheme).append(ns.full()).append("/").append(local);
  return parse(text);
}

Result<TopicName> TopicName::parse_complete(std::string_view given, bool lenient) {
  // Only short names drop empty parts, and only to count them: what is then parsed is the text as
  // given.
  std::string complete;
  if (given.find(kScheme) == std::string_view::npos) {
    std::vector<std::string_view> parts = split(given, given.size() + 1);
    std::erase_if(parts, [](std::string_view part) { return part.empty(); });
    if (parts.size() == 1) {
      complete = quoted_text("persistent://public/default/", parts[0], "");
    } else if (parts.size() == 3) {
      complete = quoted_text("persistent://", given, "");
    } else if (lenient && parts.size() == 2) {
      complete = quoted_text("persistent://", parts[0], "/");
      complete += parts[1];
    } else {
      return Status::InvalidTopicName(
          quoted_text("Invalid short topic name '", given,
                      "', it should be in the format of <tenant>/<namespace>/<topic> or <topic>"));
    }
  } else {
    complete = given;
  }

  const std::size_t scheme_at = complete.find(kScheme);
  const std::string_view domain = std::string_view(complete).substr(0, scheme_at);
  TopicName name;
  if (equals_ignoring_case(domain, "persistent")) {
    name.domain_ = TopicDomain::Persistent;
  } else if (equals_ignoring_case(domain, "non-persistent")) {
    name.domain_ = TopicDomain::NonPersistent;
  } else {
    return Status::InvalidTopicName(quoted_text("Invalid topic domain: '", domain, "'"));
  }
  std::vector<std::string_view> parts =
      split(std::string_view(complete).substr(scheme_at + kScheme.size()), 4);
  if (lenient && parts.size() == 2) parts.insert(parts.begin(), "public");
  if (parts.size() < 3) {
    return Status::InvalidTopicName(quoted_text("Invalid topic name: ", complete, ""));
  }
  name.v1_ = parts.size() == 4;
  const std::string_view cluster = name.v1_ ? parts[1] : std::string_view();
  const std::string_view ns = parts[parts.size() - 2];
  GM_RETURN_IF_ERROR(check_namespace(parts[0], cluster, name.v1_, ns));

  name.full_ = to_string(name.domain_);
  name.full_ += kScheme;
  name.tenant_at_ = static_cast<std::uint32_t>(name.full_.size());
  name.tenant_end_ = static_cast<std::uint32_t>(name.full_.size() + parts[0].size());
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) name.full_.append(parts[i]).append("/");
  name.local_at_ = static_cast<std::uint32_t>(name.full_.size());
  name.full_ += parts.back();
  name.finish();
  if (is_blank(name.base_local())) {
    return Status::InvalidTopicName(
        quoted_text("Invalid topic name: ", name.slice(0, name.base_end_),
                    ". Topic local name must not be blank."));
  }
  return name;
}

// Finds the suffix and computes the hash; full_ and local_at_ are set.
void TopicName::finish() {
  partition_ = -1;
  base_end_ = static_cast<std::uint32_t>(full_.size());
  find_partition();
  hash_ = static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(full_.data()), static_cast<uInt>(full_.size())));
}

void TopicName::find_partition() {
  const std::string_view name = local();
  const std::size_t suffix_at = name.rfind(kPartitionSuffix);
  if (suffix_at == std::string_view::npos) return;
  const std::string_view digits = name.substr(suffix_at + kPartitionSuffix.size());
  if (digits.empty() || digits.size() > 10 || (digits.size() > 1 && digits[0] == '0')) return;
  std::int64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return;
    value = value * 10 + (c - '0');
  }
  if (value > INT32_MAX) return;
  partition_ = static_cast<std::int32_t>(value);
  base_end_ = static_cast<std::uint32_t>(local_at_ + suffix_at);
}

NamespaceName TopicName::namespace_name() const {
  return std::move(NamespaceName::parse(ns())).value();
}

TopicName TopicName::base() const {
  TopicName base = *this;
  if (!is_partition()) return base;
  base.full_.resize(base_end_);
  base.finish();
  return base;
}

TopicName TopicName::partition(std::int32_t index) const {
  TopicName one = *this;
  one.full_.append(kPartitionSuffix).append(std::to_string(index));
  one.finish();
  return one;
}

std::string TopicName::encoded_local() const { return url_encode(local()); }

std::string TopicName::managed_ledger_name() const {
  std::string name(ns());
  name.append("/").append(to_string(domain_)).append("/").append(encoded_local());
  return name;
}

std::string TopicName::schema_id() const {
  // Without the cluster of v1 names, as in Pulsar.
  std::string id(tenant());
  const std::string_view space = ns();
  id.append("/")
      .append(space.substr(space.rfind('/') + 1))
      .append("/")
      .append(url_encode(base_local()));
  return id;
}

bool TopicName::is_system() const {
  static constexpr std::array<std::string_view, 4> kLocals = {
      "__change_events", "__transaction_buffer_snapshot", "__transaction_buffer_snapshot_segments",
      "__transaction_buffer_snapshot_indexes"};
  if (std::find(kLocals.begin(), kLocals.end(), base_local()) != kLocals.end()) return true;
  return is_transaction_log();
}

bool TopicName::is_transaction_log() const {
  const std::string_view base = slice(0, base_end_);
  return base.starts_with("persistent://pulsar/system/transaction_coordinator_assign") ||
         base.starts_with("persistent://pulsar/system/__transaction_log_") ||
         base.ends_with("__transaction_pending_ack");
}

}  // namespace geminga
