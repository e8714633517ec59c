#include "serving/clock.h"

#include <thread>

namespace opentrn::serving {
namespace {

constexpr Ps kPsPerNs = 1000;

}  // namespace

Ps WallClock::now() const {
  const auto passed = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count() * kPsPerNs;
}

void WallClock::wait_until(Ps at) {
  // Up to the next nanosecond: never early.
  std::this_thread::sleep_until(start_ + std::chrono::nanoseconds((at + kPsPerNs - 1) / kPsPerNs));
}

}  // namespace opentrn::serving
