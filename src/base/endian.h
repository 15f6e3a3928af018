// Big- and little-endian integers in byte arrays. The caller has checked the bounds. Any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace geminga {

template <typename T>
T load_raw(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T>
void store_raw(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

static_assert(std::endian::native == std::endian::little, "written for little-endian machines");
inline std::uint16_t load_be16(const void* p) {
  return __builtin_bswap16(load_raw<std::uint16_t>(p));
}
inline std::uint32_t load_be32(const void* p) {
  return __builtin_bswap32(load_raw<std::uint32_t>(p));
}
inline std::uint64_t load_be64(const void* p) {
  return __builtin_bswap64(load_raw<std::uint64_t>(p));
}
inline std::uint16_t load_le16(const void* p) { return load_raw<std::uint16_t>(p); }
inline std::uint32_t load_le32(const void* p) { return load_raw<std::uint32_t>(p); }
inline std::uint64_t load_le64(const void* p) { return load_raw<std::uint64_t>(p); }
inline void store_be16(void* p, std::uint16_t v) { store_raw(p, __builtin_bswap16(v)); }
inline void store_be32(void* p, std::uint32_t v) { store_raw(p, __builtin_bswap32(v)); }
inline void store_be64(void* p, std::uint64_t v) { store_raw(p, __builtin_bswap64(v)); }
inline void store_le16(void* p, std::uint16_t v) { store_raw(p, v); }
inline void store_le32(void* p, std::uint32_t v) { store_raw(p, v); }
inline void store_le64(void* p, std::uint64_t v) { store_raw(p, v); }

}  // namespace geminga
