// The HBM of simulated devices: address room of this process, out of which tensors and allocations are taken.
//
// An HBM is one mapping of its whole size. Pages that nobody writes are never there, so it costs this host
// what is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace opentrn::nrt {

class Hbm {
 public:
  static constexpr uint64_t kGranule = 64;  // bytes; allocations are of whole granules

  // Refused NRT_RESOURCE where this host gives no such room.
  Hbm(int device, int index, uint64_t bytes);
  ~Hbm();
  Hbm(const Hbm&) = delete;
  Hbm& operator=(const Hbm&) = delete;

  int device() const { return device_; }
  int index() const { return index_; }
  uint64_t bytes() const { return bytes_; }
  std::byte* data() const { return data_; }
  // Of the first byte, counted through the HBMs of the device.
  uint64_t address() const { return static_cast<uint64_t>(index_) * bytes_; }
  bool contains(const void* at) const;

  struct Taken {
    uint64_t offset = 0, bytes = 0;
    uint32_t kind = 0;  // mem_alloc_category_t
  };
  // The first room of `bytes`, zeroed, at a multiple of `align` (a power of 2) in [begin, end); nullopt where
  // there is none.
  std::optional<Taken> take(uint64_t bytes, uint64_t align, uint32_t kind, uint64_t begin, uint64_t end);
  std::optional<Taken> take(uint64_t bytes, uint32_t kind) { return take(bytes, kGranule, kind, 0, bytes_); }
  void give(const Taken& taken);
  // In the order of their addresses.
  std::vector<Taken> taken() const;

 private:
  const int device_, index_;
  const uint64_t bytes_;
  std::byte* data_ = nullptr;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes; neighbours are one
  std::map<uint64_t, Taken> taken_;
};

// HBM `index` of a device of the machine named `target`, made when it is first asked for; never goes.
Hbm& hbm_of(const std::string& target, int device, int index, uint64_t bytes);
// The one that has the address; null of none.
const Hbm* hbm_at(const void* at);

}  // namespace opentrn::nrt
