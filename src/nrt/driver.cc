#include "nrt/driver.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "base/fault.h"
#include "device/presence.h"
#include "runtime/accounting.h"

namespace opentrn::nrt {

namespace {

NRT_STATUS status_of_error(int error) {
  switch (error) {
    case EBADF: return NRT_INVALID_HANDLE;
    case ENOMEM: return NRT_RESOURCE;
    case ETIMEDOUT: return NRT_TIMEOUT;
    case ENOTSUP:
    case EIO: return NRT_FAILURE;
    default: return NRT_INVALID;
  }
}

int error_of_status(NRT_STATUS status) {
  switch (status) {
    case NRT_INVALID_HANDLE: return EBADF;
    case NRT_RESOURCE: return ENOMEM;
    case NRT_TIMEOUT: return ETIMEDOUT;
    case NRT_FAILURE: return ENOENT;
    default: return EINVAL;
  }
}

// The kinds of memory that the tools know.
bool is_counted(uint32_t kind, device::Memory* as) {
  switch (kind) {
    case NEURON_MEMALLOC_TYPE_CODE_DEVICE: *as = device::Memory::kModelCode; return true;
    case NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE: *as = device::Memory::kConstants; return true;
    case NEURON_MEMALLOC_TYPE_TENSORS_DEVICE: *as = device::Memory::kTensors; return true;
    case NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE:
    case NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE:
    case NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE: *as = device::Memory::kScratchpad; return true;
    default: return false;
  }
}

void count(const Allocation& memory, int64_t bytes) {
  if (memory.logical_core < 0) return;
  const device::CoreScope scope(memory.logical_core);
  device::add_memory(memory.counted, bytes);
}

void take_of_device(OpenDevice& device, const Wanted& wanted, Allocation& made) {
  Hbm& hbm = device.hbm(wanted.channel);
  if (wanted.region >= device.regions)
    throw Failed{EINVAL, fmt::format("region {} of HBM {}: the device was opened with {}", wanted.region,
                                     wanted.channel, device.regions)};
  const uint64_t part = hbm.bytes() / device.regions, begin = part * wanted.region;
  const auto taken = hbm.take(wanted.bytes, wanted.align, wanted.kind, begin, begin + part);
  if (!taken)
    throw Failed{ENOMEM,
                 fmt::format("{} bytes: region {} of HBM {} of device {} has no such room in one piece",
                             wanted.bytes, wanted.region, wanted.channel, device.index)};
  made.hbm = &hbm;
  made.taken = *taken;
  made.data = hbm.data() + taken->offset;
  made.face.pa = hbm.address() + taken->offset;
  if (is_counted(wanted.kind, &made.counted)) {
    const Machine& machine = device.hardware->machine;
    made.logical_core = (device.index * machine.cores_per_device + static_cast<int>(wanted.core)) /
                        machine.settings.physical_cores_per_core;
  }
}

// Untouched pages of a large allocation are never there, as those of an HBM.
void take_of_host(const Wanted& wanted, Allocation& made) {
  const uint64_t align = std::max<uint64_t>(wanted.align, alignof(std::max_align_t));
  if (wanted.bytes <= SIZE_MAX / 2) made.block = std::calloc(1, wanted.bytes + align);
  if (made.block == nullptr)
    throw Failed{ENOMEM, fmt::format("this host has no {} bytes at a multiple of {}", wanted.bytes, align)};
  const uint64_t at = (reinterpret_cast<uint64_t>(made.block) + align - 1) & ~(align - 1);
  made.data = reinterpret_cast<std::byte*>(at);
  made.face.pa = at;
}

}  // namespace

int failed(const char* function, int error, std::string message) noexcept {
  static_cast<void>(refused(function, status_of_error(error), std::move(message)));
  errno = error;
  return -1;
}

int failed_by_exception(const char* function) noexcept {
  const int error = error_of_status(answer_exception(function, false));
  errno = error;
  return -1;
}

Allocation::~Allocation() {
  if (data == nullptr) return;
  std::free(block);
  if (hbm == nullptr) return;
  hbm->give(taken);
  count(*this, -static_cast<int64_t>(face.size));
}

Hbm& OpenDevice::hbm(uint32_t channel) const {
  const Machine& machine = hardware->machine;
  if (channel >= static_cast<uint32_t>(machine.hbms))
    throw Failed{EINVAL, fmt::format("HBM {}: a device has 0 to {}", channel, machine.hbms - 1)};
  return hbm_of(machine.settings.target, index, static_cast<int>(channel), machine.hbm_bytes);
}

DriverCore& OpenDevice::core(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(cores.size()))
    throw Failed{EINVAL, fmt::format("core {}: a device has the cores 0 to {}", number, cores.size() - 1)};
  return cores[static_cast<size_t>(number)];
}

Driver& Driver::instance() {
  static Driver& instance = *new Driver;  // never destroyed: threads may call while the process ends
  return instance;
}

OpenDevice& Driver::device_at(const ndl_device_t* device) {
  expect_place(device, "the device");
  const auto found = devices.find(device);
  if (found == devices.end())
    throw Failed{EBADF, fmt::format("{} is not an open device", static_cast<const void*>(device))};
  return *found->second;
}

std::shared_ptr<Allocation> Driver::memory_at(uint64_t handle) {
  const auto found = memories.find(handle);
  if (found == memories.end()) throw Failed{EBADF, fmt::format("{:#x} is not an open memory handle", handle)};
  return found->second;
}

std::shared_ptr<Allocation> memory_of(uint64_t handle) {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  return driver.memory_at(handle);
}

std::byte* range_of(const Allocation& memory, uint64_t offset, uint64_t size) {
  if (offset > memory.face.size || size > memory.face.size - offset)
    throw Failed{EINVAL,
                 fmt::format("bytes {} to {} + {} of memory of {}", offset, offset, size, memory.face.size)};
  return memory.data + offset;
}

uint64_t allocate(Driver& driver, OpenDevice& device, const Wanted& wanted) {
  if (wanted.bytes == 0) throw Failed{EINVAL, "memory of no bytes"};
  if ((wanted.align & (wanted.align - 1)) != 0 || wanted.align > UINT32_MAX)
    throw Failed{EINVAL,
                 fmt::format("an alignment of {}: it has to be a power of 2 of at most 2^31", wanted.align)};
  if (wanted.kind >= NEURON_MEMALLOC_TYPE_MAX)
    throw Failed{EINVAL, fmt::format("memory of the kind {}: there are 0 to {}", wanted.kind,
                                     NEURON_MEMALLOC_TYPE_MAX - 1)};
  static_cast<void>(device.core(wanted.core));
  auto made = std::make_shared<Allocation>();
  if (wanted.on_host)
    take_of_host(wanted, *made);
  else
    take_of_device(device, wanted, *made);
  made->face.device = device.face.get();
  made->face.size = wanted.bytes;
  made->face.align = static_cast<uint32_t>(wanted.align);
  made->face.host_memory = wanted.on_host ? 1 : 0;
  made->face.nc_id = static_cast<int>(wanted.core);
  count(*made, static_cast<int64_t>(wanted.bytes));
  const auto handle = reinterpret_cast<uint64_t>(&made->face);
  driver.memories[handle] = std::move(made);
  return handle;
}

namespace {

std::shared_ptr<OpenDevice> opened(std::shared_ptr<const Hardware> hardware, int index,
                                   const ndl_device_init_param_t& params) {
  const Machine& machine = hardware->machine;
  const monitor::Device& wired = hardware->server.devices[static_cast<size_t>(index)];
  auto made = std::make_shared<OpenDevice>();
  made->hardware = hardware;
  made->index = index;
  made->regions = static_cast<uint64_t>(std::max(params.num_dram_regions, 1));
  made->cores.resize(static_cast<size_t>(machine.cores_per_device));
  made->face.reset(
      static_cast<ndl_device_t*>(std::calloc(1, sizeof(ndl_device_t) + sizeof(ndl_device_context_t))));
  if (made->face == nullptr) throw std::bad_alloc();
  ndl_device_t& face = *made->face;
  face.device_index = static_cast<uint8_t>(index);
  face.device_type = static_cast<uint8_t>(version(machine.settings.generation));
  face.connected_device_count = static_cast<uint8_t>(wired.connected_to.size());
  std::copy(wired.connected_to.begin(), wired.connected_to.end(), face.connected_devices);
  face.hbm_size = machine.hbm_bytes;
  for (int i = 0; i < machine.hbms; ++i) face.hbm_offset[i] = static_cast<uint64_t>(i) * machine.hbm_bytes;
  const ndl_device_context_t context{-1};  // there is no file of a device
  std::memcpy(face.context, &context, sizeof context);
  return made;
}

void map_hbms(OpenDevice& device) {
  const auto count = static_cast<uint32_t>(device.hardware->machine.hbms);
  for (uint32_t i = 0; i < count; ++i) device.face->hbm_va[i] = device.hbm(i).data();
  device.face->hbm_va_cnt = count;
}

void open_device(int index, const ndl_device_init_param_t& params, ndl_device_t** device) {
  const auto hardware = opentrn::nrt::hardware();
  if (index < 0 || index >= std::min(hardware->devices(), MAX_NEURON_DEVICE_COUNT))
    throw Failed{EINVAL, fmt::format("device {}: the machine has 0 to {}", index, hardware->devices() - 1)};
  if (params.num_dram_regions < 0 ||
      static_cast<uint64_t>(params.num_dram_regions) > hardware->machine.hbm_bytes)
    throw Failed{EINVAL, fmt::format("{} regions of an HBM", params.num_dram_regions)};
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  for (auto& [face, open] : driver.devices) {
    if (open->index != index || open->hardware->machine.settings.target != hardware->machine.settings.target)
      continue;
    if (open->regions != static_cast<uint64_t>(std::max(params.num_dram_regions, 1)))
      throw Failed{EINVAL, fmt::format("device {} is open with {} regions", index, open->regions)};
    if (params.map_hbm) map_hbms(*open);
    ++open->opened;
    *device = open->face.get();
    return;
  }
  auto made = opened(hardware, index, params);
  if (params.map_hbm) map_hbms(*made);
  runtime::hold_cores(hardware->machine.settings);
  *device = made->face.get();
  driver.devices[*device] = std::move(made);
}

void close_device(ndl_device_t* device) {
  std::vector<std::shared_ptr<Allocation>> dying;  // goes behind the lock
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  if (--driver.device_at(device).opened > 0) return;
  for (auto it = driver.memories.begin(); it != driver.memories.end();) {
    if (it->second->face.device != device) {
      ++it;
      continue;
    }
    dying.push_back(std::move(it->second));
    it = driver.memories.erase(it);
  }
  for (ndl_copy_buf_t& buffer : device->cpy_bufs)
    if (buffer.mem_handle != 0) pthread_mutex_destroy(&buffer.lock);
  driver.devices.erase(device);
  driver.changed.notify_all();
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::drive;
using opentrn::nrt::Driver;
using opentrn::nrt::expect_place;

extern "C" {

int ndl_open_device(int device_index, ndl_device_init_param_t* params, ndl_device_t** device) {
  return drive("ndl_open_device", [&] {
    expect_place(params, "the structure of parameters");
    expect_place(device, "the place of the device");
    opentrn::nrt::open_device(device_index, *params, device);
  });
}

int ndl_close_device(ndl_device_t* device) {
  return drive("ndl_close_device", [&] { opentrn::nrt::close_device(device); });
}

int ndl_get_hbm_va(ndl_device_t* device, int hbm_idx, void** va, size_t* size) {
  int answer = -EINVAL;
  static_cast<void>(drive("ndl_get_hbm_va", [&] {
    expect_place(va, "the place of the address");
    expect_place(size, "the place of the size");
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    const ndl_device_t& face = *driver.device_at(device).face;
    using opentrn::nrt::Failed;
    if (hbm_idx < 0) throw Failed{EINVAL, "an HBM of a negative number"};
    if (static_cast<uint32_t>(hbm_idx) >= face.hbm_va_cnt) {
      answer = -ENOENT;
      throw Failed{ENOENT, fmt::format("HBM {}: {} are mapped (ndl_open_device() with map_hbm)", hbm_idx,
                                       face.hbm_va_cnt)};
    }
    *va = face.hbm_va[hbm_idx];
    *size = face.hbm_size;
    answer = 0;
  }));
  return answer;
}

int ndl_get_copy_buf(ndl_device_t* device, uint32_t nc_id, ndl_copy_buf_t** cpy_buf) {
  return drive("ndl_get_copy_buf", [&] {
    expect_place(cpy_buf, "the place of the buffer");
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    auto& open = driver.device_at(device);
    static_cast<void>(open.core(nc_id));
    ndl_copy_buf_t& buffer = open.face->cpy_bufs[nc_id];
    if (buffer.mem_handle == 0) {
      opentrn::nrt::Wanted wanted;
      wanted.bytes = NDL_COPY_BUF_SIZE;
      wanted.on_host = true;
      wanted.core = nc_id;
      wanted.kind = NEURON_MEMALLOC_TYPE_NCDEV_HOST;
      buffer.mem_handle = opentrn::nrt::allocate(driver, open, wanted);
      buffer.mmap_va = driver.memory_at(buffer.mem_handle)->data;
      pthread_mutex_init(&buffer.lock, nullptr);
    }
    *cpy_buf = &buffer;
  });
}

}  // extern "C"
