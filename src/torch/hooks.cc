#include "torch/hooks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include "torch/device.h"
#include "torch/generator.h"

namespace opentrn::torch_device {

namespace {

// Pinned memory of the host: the host's own memory, of which is remembered that it was asked for as pinned.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    constexpr size_t kPage = 4096;
    const size_t taken = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
    void* data = std::aligned_alloc(kPage, taken);
    TORCH_CHECK(data != nullptr, "no ", bytes, " bytes of host memory are left");
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<std::byte*>(data)] = taken;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  bool holds(const void* pointer) {
    const auto* byte = static_cast<const std::byte*>(pointer);
    const std::lock_guard lock(mutex_);
    auto block = blocks_.upper_bound(const_cast<std::byte*>(byte));
    return block != blocks_.begin() && byte < (--block)->first + block->second;
  }
  static PinnedMemory& instance() {
    static auto* memory = new PinnedMemory;
    return *memory;
  }

 private:
  static void release(void* data) {
    PinnedMemory& memory = instance();
    {
      const std::lock_guard lock(memory.mutex_);
      memory.blocks_.erase(static_cast<std::byte*>(data));
    }
    std::free(data);
  }

  std::mutex mutex_;
  std::map<std::byte*, size_t> blocks_;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return configuration().device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(configuration().device_count());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return exchange_current_device(device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchange_current_device(device);
  }
  bool isPinnedPtr(const void* data) const override { return PinnedMemory::instance().holds(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &PinnedMemory::instance(); }
  at::Device getDeviceFromPtr(void*) const override {
    return {c10::DeviceType::PrivateUse1, current_device()};
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<Generator>(device < 0 ? current_device() : device);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    // Not as for the CPU's: of no bytes, and whatever the current device, the storage stays on its core.
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    const c10::DeviceGuard guard(storage.device());
    c10::DataPtr made = c10::GetAllocator(c10::DeviceType::PrivateUse1)->allocate(bytes);
    const size_t kept = std::min(bytes, storage.nbytes());
    if (kept > 0) std::memcpy(made.get(), storage.data(), kept);
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(made));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

}  // namespace

void register_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

}  // namespace opentrn::torch_device
