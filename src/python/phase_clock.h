// What the phases of a call took on this machine, one after the other.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

namespace opentrn::python {

class PhaseClock {
 public:
  using Seconds = std::vector<std::pair<const char*, double>>;
  explicit PhaseClock(Seconds& seconds) : seconds_(seconds) {}
  void end_of(const char* phase) {
    const auto now = std::chrono::steady_clock::now();
    seconds_.emplace_back(phase, std::chrono::duration<double>(now - begin_).count());
    begin_ = now;
  }

 private:
  Seconds& seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace opentrn::python
