#include "wire/compression.h"

#include <fmt/format.h>
#include <lz4.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <limits>
#include <memory>

namespace geminga {

namespace {

constexpr std::size_t kLargest = std::numeric_limits<int>::max();

const char* chars(std::span<const std::byte> bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

// A block that is freed on every way out but take().
class Target {
 public:
  explicit Target(std::size_t capacity) : block_(Block::allocate(capacity == 0 ? 1 : capacity)) {}
  ~Target() {
    if (block_ != nullptr) block_->unref();
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  std::byte* data() { return block_->data(); }
  char* chars() { return reinterpret_cast<char*>(block_->data()); }
  Buffer take(std::size_t size) { return Buffer::adopt(std::exchange(block_, nullptr), 0, size); }

 private:
  Block* block_;
};

Status corrupt(std::string_view codec, std::size_t size, std::size_t uncompressed_size) {
  return Status::Corruption(
      fmt::format("{} bytes of {} do not decompress to the {} bytes that the metadata says", size,
                  codec, uncompressed_size));
}

bool inflate_exactly(std::span<const std::byte> bytes, std::byte* to, std::size_t size) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return false;
  // zlib does not write through next_in.
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(to);
  stream.avail_out = static_cast<uInt>(size);
  const int code = inflate(&stream, Z_SYNC_FLUSH);
  bool whole =
      (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) && stream.avail_out == 0;
  if (whole && code != Z_STREAM_END) {
    // More output than announced is as wrong as less.
    Bytef extra = 0;
    stream.next_out = &extra;
    stream.avail_out = 1;
    const int more = inflate(&stream, Z_SYNC_FLUSH);
    whole = stream.avail_out == 1 && (more == Z_OK || more == Z_STREAM_END || more == Z_BUF_ERROR);
  }
  inflateEnd(&stream);
  return whole;
}

Result<Buffer> deflate_all(std::span<const std::byte> bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  Target target(size);
  if (::compress(reinterpret_cast<Bytef*>(target.data()), &size,
                 reinterpret_cast<const Bytef*>(bytes.data()),
                 static_cast<uLong>(bytes.size())) != Z_OK) {
    return Status::Unknown(fmt::format("zlib could not compress {} bytes", bytes.size()));
  }
  return target.take(size);
}

}  // namespace

Result<Buffer> decompress(Codec codec, std::span<const std::byte> bytes,
                          std::size_t uncompressed_size, std::size_t max_size) {
  if (uncompressed_size > max_size || uncompressed_size > kLargest || bytes.size() > kLargest) {
    return Status::InvalidArgument(fmt::format(
        "payload of {} bytes uncompressed is over the limit of {}", uncompressed_size, max_size));
  }
  switch (codec) {
    case Codec::None:
      if (bytes.size() != uncompressed_size)
        return corrupt("NONE", bytes.size(), uncompressed_size);
      return Buffer::copy_of(bytes);
    case Codec::Lz4: {
      Target target(uncompressed_size);
      const int size =
          LZ4_decompress_safe(chars(bytes), target.chars(), static_cast<int>(bytes.size()),
                              static_cast<int>(uncompressed_size));
      if (size < 0 || static_cast<std::size_t>(size) != uncompressed_size) {
        return corrupt("LZ4", bytes.size(), uncompressed_size);
      }
      return target.take(uncompressed_size);
    }
    case Codec::Zlib: {
      Target target(uncompressed_size);
      if (!inflate_exactly(bytes, target.data(), uncompressed_size)) {
        return corrupt("ZLIB", bytes.size(), uncompressed_size);
      }
      return target.take(uncompressed_size);
    }
    case Codec::Zstd: {
      Target target(uncompressed_size);
      const std::size_t size =
          ZSTD_decompress(target.data(), uncompressed_size, bytes.data(), bytes.size());
      if (ZSTD_isError(size) || size != uncompressed_size) {
        return corrupt("ZSTD", bytes.size(), uncompressed_size);
      }
      return target.take(uncompressed_size);
    }
    case Codec::Snappy: {
      std::size_t size = 0;
      if (!snappy::GetUncompressedLength(chars(bytes), bytes.size(), &size) ||
          size != uncompressed_size) {
        return corrupt("SNAPPY", bytes.size(), uncompressed_size);
      }
      Target target(uncompressed_size);
      if (!snappy::RawUncompress(chars(bytes), bytes.size(), target.chars())) {
        return corrupt("SNAPPY", bytes.size(), uncompressed_size);
      }
      return target.take(uncompressed_size);
    }
  }
  return Status::Unsupported(fmt::format("compression number {}", static_cast<int>(codec)));
}

Result<Buffer> compress(Codec codec, std::span<const std::byte> bytes) {
  if (bytes.size() > kLargest / 2) {
    return Status::InvalidArgument(
        fmt::format("payload of {} bytes is too large to compress", bytes.size()));
  }
  switch (codec) {
    case Codec::None: return Buffer::copy_of(bytes);
    case Codec::Lz4: {
      const int bound = LZ4_compressBound(static_cast<int>(bytes.size()));
      Target target(static_cast<std::size_t>(bound));
      const int size =
          LZ4_compress_default(chars(bytes), target.chars(), static_cast<int>(bytes.size()), bound);
      if (size <= 0)
        return Status::Unknown(fmt::format("LZ4 could not compress {} bytes", bytes.size()));
      return target.take(static_cast<std::size_t>(size));
    }
    case Codec::Zlib: return deflate_all(bytes);
    case Codec::Zstd: {
      const std::size_t bound = ZSTD_compressBound(bytes.size());
      Target target(bound);
      const std::size_t size = ZSTD_compress(target.data(), bound, bytes.data(), bytes.size(), 3);
      if (ZSTD_isError(size)) return Status::Unknown(ZSTD_getErrorName(size));
      return target.take(size);
    }
    case Codec::Snappy: {
      Target target(snappy::MaxCompressedLength(bytes.size()));
      std::size_t size = 0;
      snappy::RawCompress(chars(bytes), bytes.size(), target.chars(), &size);
      return target.take(size);
    }
  }
  return Status::Unsupported(fmt::format("compression number {}", static_cast<int>(codec)));
}

}  // namespace geminga
