// FNV-1a, 64 bits: keys of equal bytes, of small data; files have checksum.h. Not for anything that somebody
// may forge.
#pragma once

#include <cstdint>
#include <string_view>

namespace opentrn {

// `seed`: the hash of what came before.
inline uint64_t fnv1a(std::string_view bytes, uint64_t seed = 0xCBF29CE484222325u) {
  for (const char c : bytes) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return seed;
}

}  // namespace opentrn
