// Where the time of an engine comes from. Schedulers and executors have none of their own.
#pragma once

#include <chrono>

#include "serving/time.h"

namespace opentrn::serving {

class Clock {
 public:
  virtual ~Clock() = default;
  // Since the clock was made.
  virtual Ps now() const = 0;
  // Returns when it is `at` or later; at once if it is already.
  virtual void wait_until(Ps at) = 0;
  // Whether a step takes the time that its executor states, or that which passes while it runs.
  virtual bool takes_stated_times() const = 0;
};

// Jumps: a run takes no longer than its computation.
class VirtualClock final : public Clock {
 public:
  Ps now() const override { return now_; }
  void wait_until(Ps at) override {
    if (at > now_) now_ = at;
  }
  bool takes_stated_times() const override { return true; }

 private:
  Ps now_ = 0;
};

// The host's time. `paced`: a step takes as long as its executor states, in the host's time, so that a client
// measures what is predicted (and longer where the host is too slow); else as long as it runs.
class WallClock final : public Clock {
 public:
  explicit WallClock(bool paced) : paced_(paced), start_(std::chrono::steady_clock::now()) {}
  Ps now() const override;
  void wait_until(Ps at) override;
  bool takes_stated_times() const override { return paced_; }

 private:
  bool paced_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace opentrn::serving
