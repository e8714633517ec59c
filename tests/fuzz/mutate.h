// Random damage to a sequence of bytes.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace opentrn::fuzz {

// `words` are inserted now and then; `Bytes` is a std::string or a std::vector<std::byte>.
template <typename Bytes>
void mutate(SplitMix64& random, Bytes& bytes, std::span<const std::string_view> words) {
  using Byte = typename Bytes::value_type;
  for (uint32_t n = 1 + random.below(6); n > 0 && !bytes.empty(); --n) {
    const auto size = static_cast<uint32_t>(bytes.size());
    const auto at = static_cast<std::ptrdiff_t>(random.below(size));
    const auto span = static_cast<std::ptrdiff_t>(
        std::min<uint32_t>(1 + random.below(24), size - static_cast<uint32_t>(at)));
    switch (random.below(words.empty() ? 5 : 7)) {
      case 0: bytes[static_cast<size_t>(at)] = static_cast<Byte>(random.below(256)); break;
      case 1:
        bytes[static_cast<size_t>(at)] =
            static_cast<Byte>(static_cast<int>(bytes[static_cast<size_t>(at)]) ^ (1 << random.below(8)));
        break;
      case 2: bytes.erase(bytes.begin() + at, bytes.begin() + at + span); break;
      case 3: {
        const Bytes copy(bytes.begin() + at, bytes.begin() + at + span);
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random.below(size)), copy.begin(),
                     copy.end());
        break;
      }
      case 4: bytes.resize(static_cast<size_t>(at)); break;
      default: {
        const std::string_view word = words[random.below(static_cast<uint32_t>(words.size()))];
        std::vector<Byte> inserted;
        for (char c : word) inserted.push_back(static_cast<Byte>(c));
        bytes.insert(bytes.begin() + at, inserted.begin(), inserted.end());
      }
    }
  }
}

}  // namespace opentrn::fuzz
