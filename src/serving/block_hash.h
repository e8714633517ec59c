// Names of the contents of KV-cache blocks.
//
// As in vLLM a block's hash covers its own tokens and, through the hash of the block before it, all tokens
// before them, so two blocks with one hash hold the same keys and values. 128 bits, not keyed: equal by
// accident with probability 2^-128 a pair, and not meant to withstand somebody who forges prompts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace opentrn::serving {

struct BlockHash {
  uint64_t low = 0, high = 0;

  bool operator==(const BlockHash&) const = default;
};

struct BlockHashHasher {
  size_t operator()(const BlockHash& hash) const { return hash.low; }
};

namespace detail {

// The finaliser of SplitMix64: every bit of the result depends on every bit of `z`.
inline uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace detail

// The hash of what `parent` names, followed by `content`.
inline BlockHash chained(BlockHash parent, uint64_t content) {
  const uint64_t low = detail::mixed(parent.low + 0x9E3779B97F4A7C15u + content);
  const uint64_t high = detail::mixed((parent.high ^ content) + 0xD1B54A32D192ED03u + (low << 1));
  return {low, high};
}

inline BlockHash chained(BlockHash parent, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) parent = chained(parent, static_cast<uint32_t>(token));
  return parent;
}

}  // namespace opentrn::serving
