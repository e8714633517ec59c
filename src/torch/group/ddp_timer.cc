// What DistributedDataParallel's log says of a step's parts: simulated time of the device's current stream.
#include <array>
#include <cmath>
#include <optional>

#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "torch/device.h"

namespace opentrn::torch_device {

namespace {

class DdpTimer final : public c10d::Timer {
 public:
  explicit DdpTimer(c10::Device device) : device_(device.has_index() ? device.index() : current_device()) {}

  void record(Event event) override {
    c10d::Timer::record(event);
    at_ns_[static_cast<size_t>(event)] = stream_time_ns(current_stream(device_));
  }
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto first = at_ns_[static_cast<size_t>(start)], second = at_ns_[static_cast<size_t>(end)];
    if (!first || !second || *second < *first) return std::nullopt;
    return std::llround(*second - *first);
  }

 private:
  c10::DeviceIndex device_;
  std::array<std::optional<double>, 5> at_ns_;  // by Event
};

using c10d::RegistererTimerRegistry, c10d::TimerRegistry;
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, DdpTimer);

}  // namespace

}  // namespace opentrn::torch_device
