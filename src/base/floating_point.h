// StandardFloatingPoint: arithmetic as IEEE 754 has it, whatever the calling thread is set to.
//
// Threads of other libraries call us with their own settings: those of XLA's CPU client, in which JAX's host
// callbacks run, take subnormal numbers for zero. Threads inherit the settings of the one that starts them.
#pragma once

#include <cfenv>

#ifdef __SSE__
#include <immintrin.h>
#endif

namespace opentrn {

#ifdef __SSE__
// The control and status register of SSE and its successors: one instruction each way, where <cfenv> saves
// x87.
class StandardFloatingPoint {
 public:
  StandardFloatingPoint() : before_(_mm_getcsr()) {
    if ((before_ & kControl) != kStandard) _mm_setcsr((before_ & ~kControl) | kStandard);
  }
  ~StandardFloatingPoint() {
    if ((before_ & kControl) != kStandard) _mm_setcsr(before_);
  }
  StandardFloatingPoint(const StandardFloatingPoint&) = delete;
  StandardFloatingPoint& operator=(const StandardFloatingPoint&) = delete;

 private:
  static constexpr unsigned kControl = 0xFFC0;   // not the flags of what happened
  static constexpr unsigned kStandard = 0x1F80;  // nearest, subnormals kept, no traps
  unsigned before_;
};
#else
class StandardFloatingPoint {
 public:
  StandardFloatingPoint() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~StandardFloatingPoint() { std::fesetenv(&before_); }
  StandardFloatingPoint(const StandardFloatingPoint&) = delete;
  StandardFloatingPoint& operator=(const StandardFloatingPoint&) = delete;

 private:
  std::fenv_t before_;
};
#endif

}  // namespace opentrn
