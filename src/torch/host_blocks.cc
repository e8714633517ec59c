#include "torch/host_blocks.h"

#include <cstdlib>
#include <iterator>

namespace opentrn::torch_device {

void* HostBlocks::take(size_t bytes, size_t alignment) {
  if (is_kept(bytes)) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_size_.find(bytes); found != by_size_.end()) {
      void* data = found->second->data;
      blocks_.erase(found->second);
      by_size_.erase(found);
      bytes_ -= bytes;
      return data;
    }
  }
  void* data = std::aligned_alloc(alignment, bytes);
  if (data == nullptr) {
    clear();
    data = std::aligned_alloc(alignment, bytes);
  }
  return data;
}

void HostBlocks::put(void* data, size_t bytes) {
  if (!is_kept(bytes)) return std::free(data);
  const std::lock_guard lock(mutex_);
  while (bytes_ + bytes > kBytesMax) free_oldest();
  blocks_.push_back({data, bytes});
  by_size_.emplace(bytes, std::prev(blocks_.end()));
  bytes_ += bytes;
}

void HostBlocks::clear() {
  const std::lock_guard lock(mutex_);
  while (!blocks_.empty()) free_oldest();
}

void HostBlocks::free_oldest() {
  const auto oldest = blocks_.begin();
  for (auto [at, end] = by_size_.equal_range(oldest->bytes); at != end; ++at) {
    if (at->second != oldest) continue;
    by_size_.erase(at);
    break;
  }
  bytes_ -= oldest->bytes;
  std::free(oldest->data);
  blocks_.erase(oldest);
}

}  // namespace opentrn::torch_device
