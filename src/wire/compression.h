// The five codecs of Pulsar payloads, as its clients write them: LZ4 and Snappy are raw blocks,
// ZSTD is a standard frame, ZLIB is a zlib stream whose end may be missing (the Java client flushes
// but does not finish). Any thread.
#pragma once

#include <cstddef>
#include <span>

#include "base/buffer.h"
#include "base/status.h"

namespace geminga {

// Numbers of pulsar::proto::CompressionType.
enum class Codec : int { None = 0, Lz4 = 1, Zlib = 2, Zstd = 3, Snappy = 4 };

// `uncompressed_size` is what the metadata says; the result has exactly that size, or it is
// Corruption. Refuses with InvalidArgument, before anything is allocated, a size over `max_size`; a
// codec whose number is not in the table is Unsupported. With Codec::None the bytes are copied.
Result<Buffer> decompress(Codec codec, std::span<const std::byte> bytes,
                          std::size_t uncompressed_size, std::size_t max_size);

Result<Buffer> compress(Codec codec, std::span<const std::byte> bytes);

}  // namespace geminga
