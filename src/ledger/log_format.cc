#include "ledger/log_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/crc32c.h"
#include "base/endian.h"

namespace geminga::log_format {

namespace {

constexpr char kSegmentMagic[] = "GMSEGv1\n";

void put_varint(std::vector<std::byte>& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::byte>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::byte>(value));
}

bool take_varint(std::span<const std::byte>& in, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(in[0]);
    in = in.subspan(1);
    value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

std::uint32_t seed_at(std::uint32_t seed, std::uint64_t offset) {
  return seed ^ static_cast<std::uint32_t>(offset >> 3);
}

}  // namespace

void encode(const SegmentHeader& header, std::span<std::byte> out) {
  assert(out.size() >= kHeaderCopy);
  std::memset(out.data(), 0, kHeaderCopy);
  std::byte* p = out.data();
  std::memcpy(p, kSegmentMagic, 8);
  store_le32(p + 12, header.alignment);
  store_le64(p + 16, header.sequence);
  store_le64(p + 24, header.salt);
  store_le64(p + 32, header.segment_bytes);
  store_le32(p + 40, header.log_index);
  store_le32(p + 44, header.log_count);
  store_le64(p + 48, static_cast<std::uint64_t>(header.written_ms));
  store_le32(p + 8, crc32c({p + 12, 52}));
}

std::optional<SegmentHeader> decode_segment_header(std::span<const std::byte> copy) {
  if (copy.size() < 64) return std::nullopt;
  const std::byte* p = copy.data();
  if (std::memcmp(p, kSegmentMagic, 8) != 0 || load_le32(p + 8) != crc32c({p + 12, 52})) {
    return std::nullopt;
  }
  SegmentHeader header;
  header.alignment = load_le32(p + 12);
  header.sequence = load_le64(p + 16);
  header.salt = load_le64(p + 24);
  header.segment_bytes = load_le64(p + 32);
  header.log_index = load_le32(p + 40);
  header.log_count = load_le32(p + 44);
  header.written_ms = static_cast<std::int64_t>(load_le64(p + 48));
  const bool sane = (header.alignment == 512 || header.alignment == 4096) &&
                    header.segment_bytes >= kMinSegment && header.segment_bytes <= kMaxSegment &&
                    header.segment_bytes % 4096 == 0;
  if (!sane) return std::nullopt;
  return header;
}

std::uint32_t seed_of_salt(std::uint64_t salt) {
  std::byte bytes[8];
  store_le64(bytes, salt);
  return crc32c(bytes);
}

void encode_record(const RecordHeader& header, std::span<const std::byte> payload,
                   std::uint32_t seed, std::uint64_t offset, std::byte* out) {
  const std::uint32_t local = seed_at(seed, offset);
  std::uint32_t payload_crc = local;
  if (!payload.empty()) {
    std::memcpy(out + kRecordHeader, payload.data(), payload.size());
    payload_crc = crc32c_extend(local, {out + kRecordHeader, payload.size()});
  }
  const std::size_t end = kRecordHeader + payload.size();
  std::memset(out + end, 0, record_bytes(payload.size()) - end);
  store_le32(out + 4, payload_crc);
  store_le32(out + 8, static_cast<std::uint32_t>(payload.size()));
  out[12] = static_cast<std::byte>(header.kind);
  out[13] = static_cast<std::byte>(header.moved() ? 1 : 0);
  store_le16(out + 14, header.source);
  store_le32(out + 16, header.batch);
  store_le32(out + 20, header.messages);
  store_le64(out + 24, static_cast<std::uint64_t>(header.ledger));
  store_le64(out + 32, static_cast<std::uint64_t>(header.entry));
  store_le64(out + 40, static_cast<std::uint64_t>(header.messages_through));
  store_le32(out, crc32c_extend(local, {out + 4, kRecordHeader - 4}));
}

RecordHeader load_record(const std::byte* p) {
  RecordHeader header;
  header.payload_crc = load_le32(p + 4);
  header.length = load_le32(p + 8);
  header.kind = static_cast<Kind>(p[12]);
  header.source = load_le16(p + 14);
  header.batch = load_le32(p + 16);
  header.messages = load_le32(p + 20);
  header.ledger = static_cast<LedgerId>(load_le64(p + 24));
  header.entry = static_cast<EntryId>(load_le64(p + 32));
  header.messages_through = static_cast<std::int64_t>(load_le64(p + 40));
  return header;
}

std::optional<RecordHeader> decode_record(std::span<const std::byte> bytes, std::uint32_t seed,
                                          std::uint64_t offset) {
  if (bytes.size() < kRecordHeader) return std::nullopt;
  const std::byte* p = bytes.data();
  // Cheap tests first: a scan for valid records tries every sector.
  const auto kind = static_cast<std::uint8_t>(p[12]);
  if (kind < 1 || kind > static_cast<std::uint8_t>(Kind::Checkpoint)) return std::nullopt;
  if (static_cast<unsigned>(p[13]) != (load_le16(p + 14) != 0 ? 1U : 0U)) return std::nullopt;
  if (load_le32(p + 8) > kMaxPayload) return std::nullopt;
  if (load_le32(p) != crc32c_extend(seed_at(seed, offset), {p + 4, kRecordHeader - 4})) {
    return std::nullopt;
  }
  return load_record(p);
}

bool payload_valid(const RecordHeader& header, std::span<const std::byte> payload,
                   std::uint32_t seed, std::uint64_t offset) {
  if (payload.size() != header.length) return false;
  const std::uint32_t local = seed_at(seed, offset);
  return header.payload_crc == (payload.empty() ? local : crc32c_extend(local, payload));
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

void encode(const SegmentStart& start, std::span<std::byte> out) {
  assert(out.size() >= kSegmentStart);
  std::byte* p = out.data();
  store_le64(p, start.previous);
  store_le64(p + 8, start.previous_end);
  store_le64(p + 16, static_cast<std::uint64_t>(start.last_id));
  store_le64(p + 24, start.checkpoint);
  store_le32(p + 32, start.checkpoint_parts);
  store_le32(p + 36, 0);
}

SegmentStart decode_segment_start(std::span<const std::byte> bytes) {
  assert(bytes.size() >= kSegmentStart);
  const std::byte* p = bytes.data();
  SegmentStart start;
  start.previous = load_le64(p);
  start.previous_end = load_le64(p + 8);
  start.last_id = static_cast<LedgerId>(load_le64(p + 16));
  start.checkpoint = load_le64(p + 24);
  start.checkpoint_parts = load_le32(p + 32);
  return start;
}

std::vector<std::vector<std::byte>> encode_checkpoint(std::span<const CheckpointLedger> ledgers,
                                                      std::size_t part_bytes) {
  std::vector<std::vector<std::byte>> parts;
  std::size_t next = 0;
  do {
    std::vector<std::byte> part(4);
    std::uint32_t count = 0;
    LedgerId before = 0;
    for (; next < ledgers.size() && part.size() < part_bytes; ++next, ++count) {
      const CheckpointLedger& ledger = ledgers[next];
      put_varint(part, static_cast<std::uint64_t>(ledger.id - before));
      put_varint(part, (ledger.sealed ? 1U : 0U) | (ledger.reserve ? 2U : 0U));
      put_varint(part, static_cast<std::uint64_t>(ledger.last + 1));
      before = ledger.id;
    }
    store_le32(part.data(), count);
    parts.push_back(std::move(part));
  } while (next < ledgers.size());
  return parts;
}

Status decode_checkpoint(std::span<const std::byte> part, std::vector<CheckpointLedger>& out) {
  const Status bad = Status::Corruption("a checkpoint part does not have the form of one");
  if (part.size() < 4) return bad;
  const std::uint32_t count = load_le32(part.data());
  part = part.subspan(4);
  if (count > part.size()) return bad;
  LedgerId before = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t delta = 0;
    std::uint64_t flags = 0;
    std::uint64_t last = 0;
    if (!take_varint(part, delta) || !take_varint(part, flags) || !take_varint(part, last))
      return bad;
    const LedgerId id = static_cast<LedgerId>(static_cast<std::uint64_t>(before) + delta);
    before = id;
    out.push_back({id, (flags & 1) != 0, (flags & 2) != 0, static_cast<EntryId>(last) - 1});
  }
  return Status::ok();
}

Result<std::vector<std::byte>> encode_metadata(const std::map<std::string, std::string>& metadata) {
  std::vector<std::byte> out(4);
  store_le32(out.data(), static_cast<std::uint32_t>(metadata.size()));
  const auto put = [&out](const std::string& text) {
    std::byte size[2];
    store_le16(size, static_cast<std::uint16_t>(text.size()));
    out.insert(out.end(), size, size + 2);
    const auto* from = reinterpret_cast<const std::byte*>(text.data());
    out.insert(out.end(), from, from + text.size());
  };
  for (const auto& [key, value] : metadata) {
    if (key.size() > 0xffff || value.size() > 0xffff) {
      return Status::InvalidArgument(
          fmt::format("ledger metadata '{}' is longer than 65,535 bytes", key.substr(0, 64)));
    }
    put(key);
    put(value);
  }
  return out;
}

Result<std::map<std::string, std::string>> decode_metadata(std::span<const std::byte> bytes) {
  const Status bad = Status::Corruption("ledger metadata does not have the form of a map");
  if (bytes.size() < 4) return bad;
  const std::uint32_t count = load_le32(bytes.data());
  bytes = bytes.subspan(4);
  const auto take = [&bytes](std::string& text) {
    if (bytes.size() < 2) return false;
    const std::size_t size = load_le16(bytes.data());
    if (bytes.size() - 2 < size) return false;
    text.assign(reinterpret_cast<const char*>(bytes.data()) + 2, size);
    bytes = bytes.subspan(2 + size);
    return true;
  };
  std::map<std::string, std::string> metadata;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string key;
    std::string value;
    if (!take(key) || !take(value)) return bad;
    metadata.emplace(std::move(key), std::move(value));
  }
  return metadata;
}

}  // namespace geminga::log_format
