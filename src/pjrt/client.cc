#include "pjrt/client.h"

#include "pjrt/completion.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/build_id.h"
#include "base/fault.h"
#include "device/presence.h"
#include "runtime/accounting.h"
#include "spmd/run/device_program.h"

namespace opentrn::pjrt {

namespace {

Client* g_current = nullptr;

}  // namespace

abi::NamedValue& NamedValues::next(std::string name, abi::ValueKind kind) {
  const std::string& kept = texts_.emplace_back(std::move(name));
  abi::NamedValue& value = values_.emplace_back();
  value.struct_size = sizeof(abi::NamedValue);
  value.extension = nullptr;
  value.name = kept.data();
  value.name_size = kept.size();
  value.kind = kind;
  value.size = 1;
  return value;
}

void NamedValues::add(std::string name, std::string text) {
  const std::string& kept = texts_.emplace_back(std::move(text));
  abi::NamedValue& value = next(std::move(name), abi::ValueKind::kString);
  value.string = kept.data();
  value.size = kept.size();
}

void NamedValues::add(std::string name, int64_t number) {
  next(std::move(name), abi::ValueKind::kInt64).int64 = number;
}

void NamedValues::add(std::string name, double number) {
  next(std::move(name), abi::ValueKind::kFloat).real = static_cast<float>(number);
}

void NamedValues::add(std::string name, std::vector<int64_t> list) {
  const std::vector<int64_t>& kept = lists_.emplace_back(std::move(list));
  abi::NamedValue& value = next(std::move(name), abi::ValueKind::kInt64List);
  value.int64_list = kept.data();
  value.size = kept.size();
}

void Device::take(int64_t bytes) {
  std::unique_lock lock(mutex);
  if (bytes_in_use + bytes > bytes_limit)
    throw Fault(FaultKind::kCapacity, "pjrt.hbm",
                fmt::format("{} bytes more do not fit the HBM of device {}: {} of {} are in use", bytes, id,
                            bytes_in_use, bytes_limit),
                "free arrays, shard them over more devices, or choose a larger target with "
                "NEURON_PLATFORM_TARGET_OVERRIDE");
  bytes_in_use += bytes;
  bytes_peak = std::max(bytes_peak, bytes_in_use);
  largest_allocation = std::max(largest_allocation, bytes);
  ++allocations;
  lock.unlock();
  const device::CoreScope scope(core);
  device::add_memory(device::Memory::kTensors, bytes);
}

void Device::give_back(int64_t bytes) {
  {
    std::lock_guard lock(mutex);
    bytes_in_use -= bytes;
  }
  const device::CoreScope scope(core);
  device::add_memory(device::Memory::kTensors, -bytes);
}

Client::Client(Settings from, std::unique_ptr<Processes> of)
    : settings(std::move(from)), processes(std::move(of)), topology{this}, usage(settings.usage_file) {
  g_current = this;
  runtime::hold_cores(settings);
  const int generation = version(settings.generation);
  // JAX keeps compiled programs by this text.
  platform_version = fmt::format("OpenTrn, a simulated {} (NeuronCore-v{}), build {}", settings.target,
                                 generation, build_id());
  for (int at = 0; at < (processes ? processes->count() : 1); ++at)
    for (const int core : processes ? processes->cores()[static_cast<size_t>(at)] : settings.cores)
      add_device(at, core);
}

void Client::add_device(int at, int core) {
  const size_t i = devices.size();
  auto device = std::make_unique<Device>();
  device->client = this;
  device->id = static_cast<int>(i);
  device->core = core;
  device->process = at;
  device->is_own = at == process();
  device->kind = fmt::format("NC_v{}", version(settings.generation));
  device->text = fmt::format("NeuronDevice(id={})", i);
  device->debug_text = fmt::format("NeuronDevice(id={}, {}core={}, {})", i,
                                   processes ? fmt::format("process={}, ", at) : "", core, settings.target);
  device->attributes.add("core", int64_t{core});
  device->attributes.add("target", settings.target);
  device->bytes_limit = spmd::hbm_bytes_of_core(settings);
  device->memory = {static_cast<int>(i), device.get(), fmt::format("NeuronDeviceMemory(device={})", i),
                    fmt::format("HBM of NeuronDevice(id={})", i)};
  devices.push_back(device.get());
  if (device->is_own) {
    own_devices.push_back(device.get());
    memories.push_back(&device->memory);
  }
  owned_devices.push_back(std::move(device));
}

Client::~Client() {
  g_current = nullptr;
  if (!usage.wanted() && !settings.check) worker->abandon();
  worker.reset();
  usage.write(settings, bytes_peak());
}

int64_t Client::bytes_peak() const {
  int64_t bytes = 0;
  for (const auto& device : owned_devices) bytes = std::max(bytes, device->bytes_peak);
  return bytes;
}

void Client::drain() {
  if (forked()) return;
  Completion done;
  worker->add([&done] { done.set(std::nullopt); });
  done.wait();
}

void Client::expect_not_forked() const {
  if (forked()) throw forked_fault();
}

Client* Client::current() { return g_current; }

const NamedValues& plugin_attributes() {
  static const NamedValues& values = *[] {
    auto* made = new NamedValues;
    made->add("stablehlo_current_version", std::vector<int64_t>{1, 16, 0});
    made->add("stablehlo_minimum_version", std::vector<int64_t>{0, 9, 0});
    made->add("sdy_current_version", std::vector<int64_t>{0, 0, 1});
    return made;
  }();
  return values;
}

}  // namespace opentrn::pjrt
