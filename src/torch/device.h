// The simulated NeuronCores as PyTorch's devices: how many there are, which is current, and their streams.
//
// Work is done when a call returns; what streams and events keep is simulated time. A stream remembers how
// often which program ran, and turns that into nanoseconds when somebody asks: a program's time is computed
// once, by whoever asks first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "runtime/program_call.h"

namespace opentrn::torch_device {

struct Configuration {
  std::vector<int> cores;    // the logical core of each device
  int64_t memory_bytes = 0;  // HBM of one logical core
  runtime::MemoryCall count_memory = nullptr;
  // Nanoseconds of so many copies inside HBM of so many bytes together. Takes the interpreter lock.
  std::function<double(int64_t, int64_t)> copies_ns;

  int device_count() const { return static_cast<int>(cores.size()); }
};

// Once, before the first tensor.
void configure(const Configuration& configuration);
const Configuration& configuration();

// `index` of a device that is there; a c10::Error names those that are.
void check_device(c10::DeviceIndex index);
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);
c10::DeviceIndex exchange_current_device(c10::DeviceIndex index);
// The current device of threads that chose none: 0, until this is called.
void set_default_device(c10::DeviceIndex index);
// Whether this thread chose one.
bool has_chosen_device();

// What ran, as streams and the profiler know it.
struct Timed {
  virtual ~Timed() = default;
  // Nanoseconds on one core; 0 where the model has no time for it. Takes the interpreter lock.
  virtual double time_ns() = 0;
  virtual std::string label() const = 0;
};

c10::Stream default_stream(c10::DeviceIndex index);
c10::Stream current_stream(c10::DeviceIndex index);
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream new_stream(c10::DeviceIndex index);
// One of a few, in turn, for callers that ask again and again and keep none.
c10::Stream pool_stream(c10::DeviceIndex index);

// On the current stream of the device.
void note_run(c10::DeviceIndex index, const std::shared_ptr<Timed>& program);
void note_copy(c10::DeviceIndex index, int64_t bytes);
void note_time(c10::Stream stream, const std::string& what, double ns);

// Simulated time at which everything that was handed to the stream is done.
double stream_time_ns(c10::Stream stream);
// The stream goes on at `ns` at the earliest.
void stream_wait_until(c10::Stream stream, double ns);
// All streams of a device go on when the last of them is done, which the host has waited for.
void synchronize(c10::DeviceIndex index);

}  // namespace opentrn::torch_device
