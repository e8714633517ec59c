// The whole numbers in which flows are reckoned: rates in units of 2^-16 bytes per second, and what a flow
// has left in units of rate times picoseconds.
#pragma once

#include <cstdint>

namespace opentrn::fabric {

// ISO C++ has no 128-bit integers; GCC and Clang do.
__extension__ using Wide = __int128;

inline constexpr int kRateBits = 16;
inline constexpr int64_t kPsPerSecond = 1'000'000'000'000;

constexpr Wide work_of(int64_t bytes) { return (Wide{bytes} * kPsPerSecond) << kRateBits; }

// When what is left at a time has passed, at a rate from then on. INT64_MAX: never.
constexpr int64_t end_of_work(Wide left, int64_t rate, int64_t since_ps) {
  if (left <= 0) return since_ps;
  if (rate == 0) return INT64_MAX;
  const Wide ps = (left + rate - 1) / rate;
  return ps > INT64_MAX - since_ps ? INT64_MAX : since_ps + static_cast<int64_t>(ps);
}

}  // namespace opentrn::fabric
