// What simulations of flows share: whole numbers in which flows are reckoned (rates in units of 2^-16 bytes
// per second, and what a flow has left in units of rate times picoseconds), and how their time goes on.
#pragma once

#include <cstdint>

#include "base/fault.h"

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

// A flow starts at `at_ps`, which `state` is at from then on: not before its time, nor behind an end to come.
template <typename State>
void go_on_to_start(State& state, int64_t at_ps) {
  OPENTRN_CHECK(at_ps >= state.now_ps, "a flow starts at {} ps, but it is {} ps", at_ps, state.now_ps);
  if (at_ps == state.now_ps) return;
  OPENTRN_CHECK(at_ps <= state.next_end(), "a flow starts at {} ps, but one ends at {} ps", at_ps,
                state.next_end());
  state.now_ps = at_ps;
}

// Time goes to `at_ps`: not back, nor past an end.
template <typename State>
void expect_advance(State& state, int64_t at_ps) {
  OPENTRN_CHECK(at_ps >= state.now_ps, "time goes from {} ps to {} ps", state.now_ps, at_ps);
  OPENTRN_CHECK(at_ps <= state.next_end(), "advance to {} ps would pass the end of a flow at {} ps", at_ps,
                state.next_end());
}

}  // namespace opentrn::fabric
