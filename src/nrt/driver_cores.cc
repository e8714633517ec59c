// What cores hold for the driver's library: semaphores, events, the state of their initialisation, and who
// loads and runs which model.
#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "device/registry.h"
#include "nrt/driver.h"
#include "nrt/marks.h"
#include "nrt/peers.h"

namespace opentrn::nrt {

namespace {

template <typename Body>
int with_core(const char* function, ndl_device_t* device, int64_t core, Body&& body) noexcept {
  return drive(function, [&] {
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    body(driver.device_at(device).core(core));
  });
}

uint32_t& cell(std::array<uint32_t, 256>& cells, uint32_t index, const char* what) {
  if (index >= cells.size())
    throw Failed{EINVAL, fmt::format("{} {}: a core has 0 to {}", what, index, cells.size() - 1)};
  return cells[index];
}

bool is_same(const neuron_uuid& a, const neuron_uuid& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void expect_model(const DriverCore& core, const neuron_uuid& uuid) {
  if (!core.has_model || !is_same(core.model, uuid))
    throw Failed{EINVAL, "this process has loaded no such model on the core"};
}

// Until somebody else has initialised the core.
uint32_t wait_for_start(Driver& driver, std::unique_lock<std::mutex>& lock, ndl_device_t* device,
                        uint32_t number) {
  const auto until = std::chrono::steady_clock::now() + time_limit();
  while (true) {
    DriverCore& core = driver.device_at(device).core(number);  // it may have been closed
    if (core.init_state == NEURON_CINIT_STATE_INVALID)
      core.init_state = NEURON_CINIT_STATE_STARTED;
    else if (core.init_state == NEURON_CINIT_STATE_STARTED) {
      if (driver.changed.wait_until(lock, until) != std::cv_status::timeout) continue;
      throw Failed{ETIMEDOUT,
                   fmt::format("core {} was not initialised in time (OPENTRN_PEER_TIMEOUT_S)", number)};
    }
    return core.init_state;
  }
}

uint64_t loads_of(const OpenDevice& device, uint32_t number) {
  const Machine& machine = device.hardware->machine;
  const int physical = device.index * machine.cores_per_device + static_cast<int>(number);
  const auto logical = static_cast<uint64_t>(physical / machine.settings.physical_cores_per_core);
  uint64_t loads = 0;
  for (const device::Process& process : device::list_processes().processes)
    for (const device::CoreState& core : process.cores)
      if (core.index == logical) loads += core.loads;
  return loads;
}

}  // namespace

}  // namespace opentrn::nrt

using opentrn::nrt::drive;
using opentrn::nrt::Driver;
using opentrn::nrt::DriverCore;
using opentrn::nrt::expect_place;
using opentrn::nrt::Failed;
using opentrn::nrt::with_core;

extern "C" {

int ndl_nc_semaphore_increment(ndl_device_t* device, int nc_index, uint32_t semaphore_index, uint32_t value) {
  return with_core("ndl_nc_semaphore_increment", device, nc_index, [&](DriverCore& core) {
    opentrn::nrt::cell(core.semaphores, semaphore_index, "semaphore") += value;
  });
}
int ndl_nc_semaphore_decrement(ndl_device_t* device, int nc_index, uint32_t semaphore_index, uint32_t value) {
  return with_core("ndl_nc_semaphore_decrement", device, nc_index, [&](DriverCore& core) {
    opentrn::nrt::cell(core.semaphores, semaphore_index, "semaphore") -= value;
  });
}
int ndl_nc_semaphore_read(ndl_device_t* device, int nc_index, uint32_t semaphore_index, uint32_t* value) {
  return with_core("ndl_nc_semaphore_read", device, nc_index, [&](DriverCore& core) {
    expect_place(value, "the place of the value");
    *value = opentrn::nrt::cell(core.semaphores, semaphore_index, "semaphore");
  });
}
int ndl_nc_semaphore_write(ndl_device_t* device, int nc_index, uint32_t semaphore_index, uint32_t value) {
  return with_core("ndl_nc_semaphore_write", device, nc_index, [&](DriverCore& core) {
    opentrn::nrt::cell(core.semaphores, semaphore_index, "semaphore") = value;
  });
}
int ndl_nc_event_get(ndl_device_t* device, int nc_index, uint32_t event_index, uint32_t* value) {
  return with_core("ndl_nc_event_get", device, nc_index, [&](DriverCore& core) {
    expect_place(value, "the place of the value");
    *value = opentrn::nrt::cell(core.events, event_index, "event");
  });
}
int ndl_nc_event_set(ndl_device_t* device, int nc_index, uint32_t event_index, uint32_t value) {
  return with_core("ndl_nc_event_set", device, nc_index,
                   [&](DriverCore& core) { opentrn::nrt::cell(core.events, event_index, "event") = value; });
}

int ndl_crwl_reader_enter(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return with_core("ndl_crwl_reader_enter", device, nc_index, [&](DriverCore& core) {
    opentrn::nrt::expect_model(core, uuid);
    if (core.is_loading) throw Failed{EBUSY, "the model is being loaded"};
    ++core.readers;
  });
}
int ndl_crwl_reader_exit(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return with_core("ndl_crwl_reader_exit", device, nc_index, [&](DriverCore& core) {
    opentrn::nrt::expect_model(core, uuid);
    if (core.readers == 0) throw Failed{EINVAL, "nobody has entered"};
    --core.readers;
  });
}
int ndl_crwl_writer_enter(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return with_core("ndl_crwl_writer_enter", device, nc_index, [&](DriverCore& core) {
    if (core.is_loading || core.readers > 0)
      throw Failed{EBUSY, "the core's model is being loaded or executed"};
    core.has_model = core.is_loading = true;
    core.model = uuid;
  });
}
int ndl_crwl_writer_downgrade(ndl_device_t* device, int nc_index, struct neuron_uuid uuid) {
  return with_core("ndl_crwl_writer_downgrade", device, nc_index, [&](DriverCore& core) {
    opentrn::nrt::expect_model(core, uuid);
    if (!core.is_loading) throw Failed{EINVAL, "nobody is loading a model"};
    core.is_loading = false;
    ++core.readers;
  });
}

int ndl_crwl_nc_range_mark(uint32_t nc_count, uint32_t start_nc, uint32_t end_nc, uint32_t* max_nc_available,
                           uint64_t* bitmap, size_t size) {
  return drive("ndl_crwl_nc_range_mark", [&] {
    expect_place(max_nc_available, "the place of the number that is available");
    expect_place(bitmap, "the bitmap");
    const auto hardware = opentrn::nrt::hardware();
    const auto cores = static_cast<uint32_t>(hardware->cores());
    if (nc_count == 0 || start_nc > end_nc || end_nc >= cores)
      throw Failed{EINVAL, fmt::format("{} cores of {} to {}: the machine has 0 to {}", nc_count, start_nc,
                                       end_nc, cores - 1)};
    if (size < 8 || size / 8 * 64 <= end_nc)
      throw Failed{EINVAL, fmt::format("a bitmap of {} bytes has no bit for core {}", size, end_nc)};
    const auto first = opentrn::nrt::mark_cores(*hardware, nc_count, start_nc, end_nc, max_nc_available);
    std::memset(bitmap, 0, size);
    for (uint32_t i = 0; i < nc_count; ++i) nbitmap_set_bit(first + i, bitmap);
  });
}

int ndl_crwl_nc_range_unmark(uint64_t* bitmap, size_t size) {
  return drive("ndl_crwl_nc_range_unmark", [&] {
    expect_place(bitmap, "the bitmap");
    const auto cores = static_cast<uint64_t>(opentrn::nrt::hardware()->cores());
    std::vector<uint32_t> marked;
    for (uint64_t i = 0; i < std::min<uint64_t>(size / 8 * 64, cores); ++i)
      if (nbitmap_test_bit(static_cast<uint32_t>(i), bitmap) != 0) marked.push_back(static_cast<uint32_t>(i));
    opentrn::nrt::unmark_cores(marked);
  });
}

int ndl_nc_init_set_state(ndl_device_t* device, uint32_t nc_id, uint32_t state, uint32_t* new_state) {
  return drive("ndl_nc_init_set_state", [&] {
    expect_place(new_state, "the place of the state");
    if (state < NEURON_CINIT_STATE_STARTED || state > NEURON_CINIT_STATE_INVALID)
      throw Failed{EINVAL, fmt::format("{} is not a state of a core", state)};
    Driver& driver = Driver::instance();
    std::unique_lock lock(driver.mutex);
    DriverCore& core = driver.device_at(device).core(nc_id);
    if (state == NEURON_CINIT_STATE_STARTED) {
      *new_state = opentrn::nrt::wait_for_start(driver, lock, device, nc_id);
      return;
    }
    core.init_state = state;
    *new_state = state;
    driver.changed.notify_all();
  });
}

int ndl_nc_model_started_count(ndl_device_t* device, uint32_t nc_id, uint64_t* started_count) {
  return drive("ndl_nc_model_started_count", [&] {
    expect_place(started_count, "the place of the count");
    Driver& driver = Driver::instance();
    const std::lock_guard lock(driver.mutex);
    auto& open = driver.device_at(device);
    static_cast<void>(open.core(nc_id));
    *started_count = opentrn::nrt::loads_of(open, nc_id);
  });
}

}  // extern "C"
