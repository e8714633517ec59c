// Seeded random numbers that are the same on every host: SplitMix64 (Steele, Lea, Flood 2014).
// Tests, fuzzers and stochastic rounding use it; std::uniform_* differ between libraries.
#pragma once

#include <cstdint>

namespace opentrn {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint32_t next32() { return static_cast<uint32_t>(next() >> 32); }
  // Uniform in [0, bound); bound > 0. The bias of the multiply-shift is below 2^-32.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((uint64_t{next32()} * bound) >> 32); }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace opentrn
