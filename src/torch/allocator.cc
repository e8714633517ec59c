// Memory of a simulated core: the host's, counted against the core's HBM.
#include <array>
#include <cstring>
#include <mutex>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include "torch/device.h"
#include "torch/host_blocks.h"

namespace opentrn::torch_device {

namespace {

using c10::CachingDeviceAllocator::DeviceStats;

constexpr size_t kAlignment = 64;  // what a tensor's row begins at in HBM, and a cache line of the host

struct Block {
  c10::DeviceIndex device;
  size_t bytes;
};

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Memory {
  std::mutex mutex;
  DeviceStats stats;
  int64_t used = 0;
};

Memory& memory_of(c10::DeviceIndex device) {
  static auto* all = new std::array<Memory, 256>;
  return (*all)[static_cast<size_t>(device)];
}

// Never destroyed: tensors may outlive it at exit.
HostBlocks& host_blocks() {
  static auto* blocks = new HostBlocks;
  return *blocks;
}

void count(DeviceStats& stats, size_t rounded_bytes, size_t asked, bool more) {
  const auto change = [&](c10::CachingAllocator::StatArray& row, size_t amount) {
    for (const auto kind : {c10::CachingAllocator::StatType::AGGREGATE,
                            rounded_bytes < (1 << 20) ? c10::CachingAllocator::StatType::SMALL_POOL
                                                      : c10::CachingAllocator::StatType::LARGE_POOL}) {
      auto& stat = row[static_cast<size_t>(kind)];
      more ? stat.increase(amount) : stat.decrease(amount);
    }
  };
  change(stats.allocation, 1);
  change(stats.segment, 1);
  change(stats.active, 1);
  change(stats.allocated_bytes, rounded_bytes);
  change(stats.reserved_bytes, rounded_bytes);
  change(stats.active_bytes, rounded_bytes);
  change(stats.requested_bytes, asked);
  ++(more ? stats.num_device_alloc : stats.num_device_free);
}

// The block's size lies before its first byte.
struct Header {
  size_t asked;
  c10::DeviceIndex device;
  uint64_t record;  // of runtime::MemoryCall
};

uint64_t tell_tools(c10::DeviceIndex device, int64_t bytes, uint64_t record = 0) {
  const Configuration& machine = configuration();
  return machine.count_memory(machine.cores[static_cast<size_t>(device)], bytes, record);
}

void release(void* data) {
  if (data == nullptr) return;
  void* base = static_cast<std::byte*>(data) - kAlignment;
  Header header;
  std::memcpy(&header, base, sizeof header);
  Memory& memory = memory_of(header.device);
  {
    const std::lock_guard lock(memory.mutex);
    memory.used -= static_cast<int64_t>(rounded(header.asked));
    count(memory.stats, rounded(header.asked), header.asked, false);
  }
  tell_tools(header.device, -static_cast<int64_t>(rounded(header.asked)), header.record);
  host_blocks().put(base, rounded(header.asked) + kAlignment);
}

std::string gib(double bytes) {
  return c10::str(static_cast<double>(static_cast<int64_t>(bytes / 1048576.0 / 10.24)) / 100, " GiB");
}

struct HbmAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex device = current_device();
    const c10::Device place(c10::DeviceType::PrivateUse1, device);
    if (bytes == 0) return {nullptr, nullptr, &release, place};
    Memory& memory = memory_of(device);
    const auto taken = static_cast<int64_t>(rounded(bytes));
    {
      const std::lock_guard lock(memory.mutex);
      const int64_t limit = configuration().memory_bytes;
      if (memory.used + taken > limit) {
        ++memory.stats.num_ooms;
        TORCH_CHECK_WITH(OutOfMemoryError, false, "neuron:", static_cast<int>(device),
                         " is out of memory: ", gib(static_cast<double>(bytes)), " more do not fit beside ",
                         gib(static_cast<double>(memory.used)), " of the core's ",
                         gib(static_cast<double>(limit)), " of HBM");
      }
      memory.used += taken;
      count(memory.stats, rounded(bytes), bytes, true);
    }
    void* base = host_blocks().take(rounded(bytes) + kAlignment, kAlignment);
    if (base == nullptr) {
      const std::lock_guard lock(memory.mutex);
      memory.used -= taken;
      count(memory.stats, rounded(bytes), bytes, false);
      TORCH_CHECK_WITH(OutOfMemoryError, false, "this host has no ", gib(static_cast<double>(bytes)),
                       " left for a tensor of neuron:", static_cast<int>(device),
                       ": a simulated core's memory is the host's");
    }
    const Header header{bytes, device, tell_tools(device, taken)};
    std::memcpy(base, &header, sizeof header);
    void* data = static_cast<std::byte*>(base) + kAlignment;
    return {data, data, &release, place};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool initialized() override { return configuration().memory_bytes > 0; }
  // Of HBM nothing is kept: reserved is allocated.
  void emptyCache(c10::MempoolId_t) override { host_blocks().clear(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // work is done when its call returns
  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    check_device(device);
    Memory& memory = memory_of(device);
    const std::lock_guard lock(memory.mutex);
    return memory.stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    each_stat(device, [](c10::CachingAllocator::Stat& stat) { stat.reset_accumulated(); });
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    each_stat(device, [](c10::CachingAllocator::Stat& stat) { stat.reset_peak(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check_device(device);
    Memory& memory = memory_of(device);
    const std::lock_guard lock(memory.mutex);
    const int64_t limit = configuration().memory_bytes;
    return {static_cast<size_t>(limit - memory.used), static_cast<size_t>(limit)};
  }

 private:
  template <typename Change>
  void each_stat(c10::DeviceIndex device, Change change) {
    check_device(device);
    Memory& memory = memory_of(device);
    const std::lock_guard lock(memory.mutex);
    for (auto* row : {&memory.stats.allocation, &memory.stats.segment, &memory.stats.active,
                      &memory.stats.allocated_bytes, &memory.stats.reserved_bytes, &memory.stats.active_bytes,
                      &memory.stats.requested_bytes})
      for (c10::CachingAllocator::Stat& stat : *row) change(stat);
  }
};

HbmAllocator hbm;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &hbm);

}  // namespace

}  // namespace opentrn::torch_device
