// Freed blocks of the host's memory, kept for the next tensors of the same size.
//
// A training step makes tensors of the same sizes again and again. The C library gives large blocks back to
// the system when they are freed, and the system clears each page when it is first written: for a GPT of 4
// layers of 128 these were 10,800 page faults a step.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <mutex>

namespace opentrn::torch_device {

// Thread-safe.
class HostBlocks {
 public:
  // `bytes` of memory, uninitialised, whose address is a multiple of `alignment`; null when the host has
  // none. `bytes` is a multiple of `alignment`.
  void* take(size_t bytes, size_t alignment);
  // Memory that take() gave for as many bytes.
  void put(void* data, size_t bytes);
  // Gives everything that is kept to the system.
  void clear();

 private:
  struct Block {
    void* data;
    size_t bytes;
  };
  using Blocks = std::list<Block>;

  static bool is_kept(size_t bytes) { return bytes >= kBytesMin && bytes <= kBytesMax; }
  void free_oldest();

  // Smaller ones the C library keeps itself.
  static constexpr size_t kBytesMin = size_t{64} << 10;
  // Of all together: the tensors of a step of a small model, and little of a host's memory.
  static constexpr size_t kBytesMax = size_t{512} << 20;

  std::mutex mutex_;
  Blocks blocks_;  // the oldest first
  std::multimap<size_t, Blocks::iterator> by_size_;
  size_t bytes_ = 0;
};

}  // namespace opentrn::torch_device
