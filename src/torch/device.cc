#include "torch/device.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <c10/util/Exception.h>

#include "torch/profiler.h"

namespace opentrn::torch_device {

namespace {

struct StreamState {
  double done_ns = 0;
  std::unordered_map<std::shared_ptr<Timed>, int64_t> runs;  // since done_ns was computed
  int64_t copies = 0, copied_bytes = 0;
};

struct DeviceState {
  std::mutex mutex;
  std::vector<std::unique_ptr<StreamState>> streams;
  std::vector<c10::StreamId> pool;
  size_t next_of_pool = 0;
};

constexpr size_t kPool = 32;  // streams, as PyTorch's other devices have

Configuration the_configuration;
// Never destroyed: tensors may outlive static objects.
std::vector<std::unique_ptr<DeviceState>>& devices() {
  static auto* all = new std::vector<std::unique_ptr<DeviceState>>;
  return *all;
}

std::atomic<c10::DeviceIndex> default_device = 0;
thread_local c10::DeviceIndex chosen = -1;
thread_local std::vector<c10::StreamId> current_streams;

DeviceState& state(c10::DeviceIndex index) {
  check_device(index);
  return *devices()[static_cast<size_t>(index)];
}

c10::Stream stream_of(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, index), id);
}

StreamState& stream_state(DeviceState& device, c10::StreamId id) {
  TORCH_CHECK(id >= 0 && static_cast<size_t>(id) < device.streams.size(), "stream ", id,
              " is none of this device: it has ", device.streams.size());
  return *device.streams[static_cast<size_t>(id)];
}

// Programs compute their time under the interpreter lock, which others wait for with this device's lock held:
// so what ran is taken out first.
double flushed(c10::Stream stream) {
  DeviceState& device = state(stream.device_index());
  std::unordered_map<std::shared_ptr<Timed>, int64_t> runs;
  int64_t copies = 0, bytes = 0;
  {
    const std::lock_guard lock(device.mutex);
    StreamState& own = stream_state(device, stream.id());
    runs.swap(own.runs);
    copies = std::exchange(own.copies, 0);
    bytes = std::exchange(own.copied_bytes, 0);
  }
  double ns = copies == 0 ? 0 : the_configuration.copies_ns(copies, bytes);
  for (const auto& [program, count] : runs) ns += static_cast<double>(count) * program->time_ns();
  const std::lock_guard lock(device.mutex);
  return stream_state(device, stream.id()).done_ns += ns;
}

}  // namespace

void configure(const Configuration& given) {
  TORCH_CHECK(devices().empty(), "the devices are configured already");
  the_configuration = given;
  for (int i = 0; i < given.device_count(); ++i) {
    devices().push_back(std::make_unique<DeviceState>());
    devices().back()->streams.push_back(std::make_unique<StreamState>());
  }
}

const Configuration& configuration() { return the_configuration; }

void check_device(c10::DeviceIndex index) {
  TORCH_CHECK(
      index >= 0 && index < the_configuration.device_count(), "neuron:", static_cast<int>(index),
      " is not a device: there ", the_configuration.device_count() == 1 ? "is " : "are ",
      the_configuration.device_count(),
      " (NEURON_RT_NUM_CORES or NEURON_RT_VISIBLE_CORES, set before torch is imported, says how many)");
}

c10::DeviceIndex current_device() { return chosen >= 0 ? chosen : default_device.load(); }

void set_default_device(c10::DeviceIndex index) {
  check_device(index);
  default_device = index;
}

bool has_chosen_device() { return chosen >= 0; }

void set_current_device(c10::DeviceIndex index) {
  check_device(index);
  chosen = index;
}

c10::DeviceIndex exchange_current_device(c10::DeviceIndex index) {
  check_device(index);
  const c10::DeviceIndex before = current_device();
  if (before != index) chosen = index;
  return before;
}

c10::Stream default_stream(c10::DeviceIndex index) { return stream_of(index, 0); }

c10::Stream current_stream(c10::DeviceIndex index) {
  check_device(index);
  const auto place = static_cast<size_t>(index);
  return stream_of(index, place < current_streams.size() ? current_streams[place] : 0);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const c10::Stream before = current_stream(stream.device_index());
  current_streams.resize(static_cast<size_t>(the_configuration.device_count()), 0);
  current_streams[static_cast<size_t>(stream.device_index())] = stream.id();
  return before;
}

c10::Stream new_stream(c10::DeviceIndex index) {
  DeviceState& device = state(index);
  const std::lock_guard lock(device.mutex);
  device.streams.push_back(std::make_unique<StreamState>());
  return stream_of(index, static_cast<c10::StreamId>(device.streams.size() - 1));
}

c10::Stream pool_stream(c10::DeviceIndex index) {
  DeviceState& device = state(index);
  const std::lock_guard lock(device.mutex);
  const size_t place = device.next_of_pool++ % kPool;
  if (place == device.pool.size()) {
    device.streams.push_back(std::make_unique<StreamState>());
    device.pool.push_back(static_cast<c10::StreamId>(device.streams.size() - 1));
  }
  return stream_of(index, device.pool[place]);
}

namespace {

struct Copy final : Timed {
  explicit Copy(int64_t bytes) : bytes(bytes) {}
  double time_ns() override { return the_configuration.copies_ns(1, bytes); }
  std::string label() const override { return c10::str("copy inside HBM, ", bytes, " bytes"); }
  int64_t bytes;
};

struct Stated final : Timed {
  Stated(std::string what, double ns) : what(std::move(what)), ns(ns) {}
  double time_ns() override { return ns; }
  std::string label() const override { return what; }
  std::string what;
  double ns;
};

}  // namespace

void note_run(c10::DeviceIndex index, const std::shared_ptr<Timed>& program) {
  const c10::Stream stream = current_stream(index);
  if (is_profiled()) profile(stream, program);
  DeviceState& device = state(index);
  const std::lock_guard lock(device.mutex);
  ++stream_state(device, stream.id()).runs[program];
}

void note_copy(c10::DeviceIndex index, int64_t bytes) {
  const c10::Stream stream = current_stream(index);
  if (is_profiled()) profile(stream, std::make_shared<Copy>(bytes));
  DeviceState& device = state(index);
  const std::lock_guard lock(device.mutex);
  StreamState& own = stream_state(device, stream.id());
  ++own.copies;
  own.copied_bytes += bytes;
}

void note_time(c10::Stream stream, const std::string& what, double ns) {
  if (is_profiled()) profile(stream, std::make_shared<Stated>(what, ns));
  DeviceState& device = state(stream.device_index());
  const std::lock_guard lock(device.mutex);
  stream_state(device, stream.id()).done_ns += ns;
}

double stream_time_ns(c10::Stream stream) { return flushed(stream); }

void stream_wait_until(c10::Stream stream, double ns) {
  flushed(stream);
  DeviceState& device = state(stream.device_index());
  const std::lock_guard lock(device.mutex);
  StreamState& own = stream_state(device, stream.id());
  own.done_ns = std::max(own.done_ns, ns);
}

void synchronize(c10::DeviceIndex index) {
  size_t count = 0;
  {
    DeviceState& device = state(index);
    const std::lock_guard lock(device.mutex);
    count = device.streams.size();
  }
  if (count == 1) return;
  double last = 0;
  for (size_t i = 0; i < count; ++i)
    last = std::max(last, flushed(stream_of(index, static_cast<c10::StreamId>(i))));
  for (size_t i = 0; i < count; ++i) stream_wait_until(stream_of(index, static_cast<c10::StreamId>(i)), last);
}

}  // namespace opentrn::torch_device
