#include "managed_ledger/stored_compression.h"

#include <lz4.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>

#include "MLDataFormats.pb.h"
#include "base/endian.h"

namespace geminga {

namespace {

constexpr std::uint16_t kMagic = 0x4778;
constexpr std::size_t kFixed = 6;  // magic and header length
constexpr std::int32_t kMaxValue = 64 << 20;

bool uncompress(pulsar::ml::CompressionType type, std::string_view from, std::string& to) {
  switch (type) {
    case pulsar::ml::NONE:
      if (from.size() != to.size()) return false;
      to.assign(from);
      return true;
    case pulsar::ml::LZ4:
      return LZ4_decompress_safe(from.data(), to.data(), static_cast<int>(from.size()),
                                 static_cast<int>(to.size())) == static_cast<int>(to.size());
    case pulsar::ml::ZLIB: {
      auto size = static_cast<uLongf>(to.size());
      return ::uncompress(reinterpret_cast<Bytef*>(to.data()), &size,
                          reinterpret_cast<const Bytef*>(from.data()),
                          static_cast<uLong>(from.size())) == Z_OK &&
             size == to.size();
    }
    case pulsar::ml::ZSTD:
      return ZSTD_decompress(to.data(), to.size(), from.data(), from.size()) == to.size();
    case pulsar::ml::SNAPPY: {
      std::size_t size = 0;
      return snappy::GetUncompressedLength(from.data(), from.size(), &size) && size == to.size() &&
             snappy::RawUncompress(from.data(), from.size(), to.data());
    }
  }
  return false;
}

}  // namespace

bool is_compressed_value(std::string_view value) {
  return value.size() >= kFixed && load_be16(value.data()) == kMagic;
}

Result<std::string> uncompress_value(std::string_view value, std::string_view path) {
  const auto broken = [&](std::string_view what) {
    return Status::Corruption("the compressed value of " + std::string(path) + ": " +
                              std::string(what));
  };
  const std::size_t header_size = load_be32(value.data() + 2);
  if (header_size > value.size() - kFixed) return broken("its header is longer than the value");
  pulsar::ml::ManagedLedgerInfoMetadata header;
  if (!header.ParseFromArray(value.data() + kFixed, static_cast<int>(header_size))) {
    return broken("its header cannot be read");
  }
  if (header.uncompressedsize() < 0 || header.uncompressedsize() > kMaxValue) {
    return broken("it claims " + std::to_string(header.uncompressedsize()) +
                  " bytes, allowed are 64 MiB");
  }
  std::string plain(static_cast<std::size_t>(header.uncompressedsize()), '\0');
  if (!uncompress(header.compressiontype(), value.substr(kFixed + header_size), plain)) {
    return broken("its data is damaged");
  }
  return plain;
}

}  // namespace geminga
