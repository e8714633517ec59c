// XXH3, 64 bits: checksums of files, at the speed of memory. Finds damage, not what somebody forges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace opentrn {

uint64_t checksum(std::string_view bytes);

inline uint64_t checksum(std::span<const std::byte> bytes) {
  return checksum(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace opentrn
