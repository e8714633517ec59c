// PyTorch's guard of devices, streams and events. Events hold simulated time.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "torch/device.h"

namespace opentrn::torch_device {

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

struct Event {
  double at_ns = 0;
};

// PyTorch's events that are shared by processes or that measure nothing are the same to us.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  Device exchangeDevice(Device device) const override {
    return {type(), exchange_current_device(device.index())};
  }
  Device getDevice() const override { return {type(), current_device()}; }
  void setDevice(Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < configuration().device_count())
      set_current_device(device.index());
  }
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(configuration().device_count());
  }

  Stream getStream(Device device) const override { return current_stream(index(device)); }
  Stream getDefaultStream(Device device) const override { return default_stream(index(device)); }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return pool_stream(index(device)); }
  Stream getNewStream(Device device, int) const override { return new_stream(index(device)); }
  Stream exchangeStream(Stream stream) const override { return exchange_stream(stream); }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeDevice(const DeviceIndex index) const override { synchronize(index); }

  void record(void** event, const Stream& stream, const DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->at_ns = stream_time_ns(stream);
  }
  void block(void* event, const Stream& stream) const override {
    if (event != nullptr) stream_wait_until(stream, static_cast<Event*>(event)->at_ns);
  }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  // Milliseconds, as everywhere in PyTorch; of the device, not of this host.
  double elapsedTime(void* first, void* second, const DeviceIndex) const override {
    TORCH_CHECK(first != nullptr && second != nullptr, "both events must be recorded before elapsed_time()");
    return (static_cast<Event*>(second)->at_ns - static_cast<Event*>(first)->at_ns) / 1e6;
  }

 private:
  static DeviceIndex index(Device device) { return device.has_index() ? device.index() : current_device(); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

}  // namespace opentrn::torch_device
