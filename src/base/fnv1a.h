// FNV-1a, 64 bits: checksums of files and keys of equal bytes. Not for anything that somebody may forge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace opentrn {

// `seed`: the hash of what came before.
inline uint64_t fnv1a(std::string_view bytes, uint64_t seed = 0xCBF29CE484222325u) {
  for (const char c : bytes) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return seed;
}

inline uint64_t fnv1a(std::span<const std::byte> bytes) {
  return fnv1a(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace opentrn
