// One call of a custom operator on one core of the GpSimd Engine: what its functions ask of the core.
#ifndef OPENTRN_TORCH_GPSIMD_CALL_H_
#define OPENTRN_TORCH_GPSIMD_CALL_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace torch {

class Tensor;

namespace neuron {

// What a kernel did that the Neuron SDK's guide rules out. The operator fails with the text.
class Fault : public std::runtime_error {
 public:
  explicit Fault(const std::string& what) : std::runtime_error(what) {}
};

inline void check(bool condition, const std::string& otherwise) {
  if (!condition) throw Fault(otherwise);
}

// "Users have access to a 16KB pool of TCM memory": custom-ops-ref-guide.rst, "TCM Accessor".
constexpr size_t kTcmBytes = 16 * 1024;
// GpSimd has eight cores: trainium_arch.rst. With multicore=True each runs the kernel.
constexpr uint32_t kCores = 8;

struct Call {
  Tensor* result = nullptr;  // the operator's output; null outside of a kernel
  bool took_result = false;  // the kernel asked for it and writes there
  bool is_multicore = false;
  uint32_t core = 0;
  size_t tcm_bytes = 0;
  std::unordered_map<void*, size_t> tcm;

  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    for (const auto& each : tcm) std::free(each.first);
  }
};

// The call that this thread is in; null outside of one.
inline Call*& this_call() {
  static thread_local Call* call = nullptr;
  return call;
}

inline Call& in_kernel(const char* function) {
  check(this_call() != nullptr, std::string(function) + "() is called outside of a kernel");
  return *this_call();
}

// Memory of the core's 16 KB, or null where that many bytes are not left.
inline void* tcm_malloc(size_t bytes) {
  Call& call = in_kernel("tcm_malloc");
  if (bytes > kTcmBytes - call.tcm_bytes) return nullptr;
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) return nullptr;
  call.tcm[memory] = bytes;
  call.tcm_bytes += bytes;
  return memory;
}

inline void tcm_free(void* memory) {
  Call& call = in_kernel("tcm_free");
  if (memory == nullptr) return;
  const auto found = call.tcm.find(memory);
  check(found != call.tcm.end(), "tcm_free() got memory that tcm_malloc() did not give, or gave back before");
  call.tcm_bytes -= found->second;
  call.tcm.erase(found);
  std::free(memory);
}

}  // namespace neuron
}  // namespace torch

#endif  // OPENTRN_TORCH_GPSIMD_CALL_H_
