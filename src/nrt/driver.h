// What the driver's library (ndl.h) keeps: open devices, allocations, and what cores hold.
#pragma once

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/record.h"
#include "nrt/hardware.h"
#include "nrt/include/ndl/ndl.h"

namespace opentrn::nrt {

// A call that did not succeed: becomes -1, errno and the thread's last message.
struct Failed {
  int error;
  std::string message;
};

// -1 with errno and the message.
int failed(const char* function, int error, std::string message) noexcept;
// -1, from the exception under way.
int failed_by_exception(const char* function) noexcept;

// 0, or -1 with errno. `body` may throw anything.
template <typename Body>
int drive(const char* function, Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const Failed& error) {
    return failed(function, error.error, error.message);
  } catch (...) {
    return failed_by_exception(function);
  }
}

// Memory that a handle stands for. Goes back when the last copy under way is done.
struct Allocation {
  Allocation() = default;
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  ndl_mem_info_t face{};  // what the handle is the address of
  std::byte* data = nullptr;
  void* block = nullptr;  // of the host, which the data lies in
  Hbm* hbm = nullptr;     // null: of the host
  Hbm::Taken taken;
  int logical_core = -1;  // whose memory the tools count it as, and as what; -1: nobody's
  device::Memory counted = device::Memory::kTensors;
};

struct DriverCore {
  std::array<uint32_t, 256> semaphores{}, events{};
  uint32_t init_state = NEURON_CINIT_STATE_INVALID;
  // Of ndl_crwl_*.
  bool has_model = false, is_loading = false;
  uint32_t readers = 0;
  neuron_uuid model{};
};

struct OpenDevice {
  std::shared_ptr<const Hardware> hardware;
  int index = 0, opened = 1;
  uint64_t regions = 1;  // of each HBM
  std::unique_ptr<ndl_device_t, decltype(&std::free)> face{nullptr, &std::free};
  std::vector<DriverCore> cores;

  Hbm& hbm(uint32_t channel) const;  // Failed EINVAL of none
  DriverCore& core(int64_t number);  // Failed EINVAL of none
};

class Driver {
 public:
  static Driver& instance();

  std::mutex mutex;  // of everything here; not held while bytes are copied
  std::condition_variable changed;
  std::map<const ndl_device_t*, std::shared_ptr<OpenDevice>> devices;
  std::map<uint64_t, std::shared_ptr<Allocation>> memories;

  // The mutex is held. Failed EBADF.
  OpenDevice& device_at(const ndl_device_t* device);
  std::shared_ptr<Allocation> memory_at(uint64_t handle);
};

// Takes the mutex; the allocation lives as long as the pointer.
std::shared_ptr<Allocation> memory_of(uint64_t handle);
// Bytes from `offset`, `size` of them. Failed EINVAL beyond the end.
std::byte* range_of(const Allocation& memory, uint64_t offset, uint64_t size);

struct Wanted {
  uint64_t bytes = 0, align = 0;
  bool on_host = false;
  uint32_t channel = 0, region = 0, core = 0, kind = 0;
};
// The mutex is held.
uint64_t allocate(Driver& driver, OpenDevice& device, const Wanted& wanted);

template <typename Pointer>
void expect_place(Pointer* pointer, const char* name) {
  if (pointer == nullptr) throw Failed{EINVAL, std::string(name) + " is null"};
}

}  // namespace opentrn::nrt
