// Tensors of libnrt: bytes of this host that stand for a core's HBM, or the caller's own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "nrt/hbm.h"
#include "nrt/include/nrt/nrt.h"

namespace opentrn::nrt {

// Memory that tensors share. Of a device: counted against the core's HBM and told to the tools while it
// lives.
class Storage {
 public:
  // Zeroed. `core`: nullopt on the host. Refused NRT_RESOURCE.
  Storage(size_t bytes, std::optional<size_t> core);
  // Of the caller.
  Storage(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  std::optional<size_t> core() const { return core_; }
  // Where it lies; null on the host and of the caller's memory.
  const Hbm* hbm() const { return hbm_; }
  const Hbm::Taken& taken() const { return taken_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  std::optional<size_t> core_;
  bool owned_ = false;
  uint64_t epoch_ = 0;
  Hbm* hbm_ = nullptr;
  Hbm::Taken taken_;
};

struct TensorSet {
  std::map<std::string, nrt_tensor*> tensors;
};

}  // namespace opentrn::nrt

struct nrt_tensor {
  std::string name;
  std::shared_ptr<opentrn::nrt::Storage> storage;  // null: empty
  size_t offset = 0, size = 0;
  std::atomic<uint64_t> completions = 0;

  std::byte* data() const { return storage->data() + offset; }
};

namespace opentrn::nrt {

// The tensor, alive. Throws Refused. The state's mutex is held.
nrt_tensor& tensor_at(const nrt_tensor_t* handle);
// Its bytes from `offset`, `size` of them. Throws Refused NRT_INVALID beyond the end.
std::byte* range_of(const nrt_tensor& tensor, uint64_t offset, uint64_t size);
TensorSet& set_at(const nrt_tensor_set_t* handle);

}  // namespace opentrn::nrt
