// Ends a process whose case does not end, by a signal that on_signal handles.
//
// The limit is one of processor time: a case that waits for a busy machine, or runs at low priority, is no
// hang. A case that waits for ever uses no processor time; for those there is a limit of wall time, far
// behind.
#pragma once

#include <sys/time.h>

#include <cmath>

namespace opentrn::fuzz {

// Wall seconds for each second of processor time that a case may take.
inline constexpr double kWallPerCpu = 100;

inline itimerval timer_of(double seconds) {
  const double whole = std::floor(seconds);
  return {{0, 0}, {static_cast<time_t>(whole), static_cast<suseconds_t>((seconds - whole) * 1e6)}};
}

// Sends SIGPROF when the process used `seconds` more of processor time. 0 ends the watch.
inline void watch_processor(double seconds) {
  const itimerval timer = timer_of(seconds);
  (void)setitimer(ITIMER_PROF, &timer, nullptr);
}

// That, and SIGALRM after kWallPerCpu times as much wall time. libFuzzer has a timer of wall time of its own.
inline void watch(double seconds) {
  watch_processor(seconds);
  const itimerval timer = timer_of(seconds * kWallPerCpu);
  (void)setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace opentrn::fuzz
