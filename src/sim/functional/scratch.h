// Temporary memory of one instruction: a stack per thread, so that no instruction touches the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace opentrn::sim {

// Everything taken between construction and destruction is given back at the end, in stack order.
class ScratchScope {
 public:
  ScratchScope();
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

  // Uninitialised, 64-byte aligned.
  std::byte* bytes(int64_t count);
  template <typename T>
  T* array(int64_t count) {
    return reinterpret_cast<T*>(bytes(count * static_cast<int64_t>(sizeof(T))));
  }
  float* floats(int64_t count) { return array<float>(count); }

 private:
  struct Stack;
  static Stack& local();

  size_t block_;
  int64_t used_;
};

}  // namespace opentrn::sim
