#include "torch/overlaps.h"

#include <string>
#include <unordered_map>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <c10/util/Exception.h>

namespace opentrn::torch_device {

namespace {

constexpr int64_t kAskedBytesMax = int64_t{1} << 28;

// Tensors of the host that share memory as a call's tensors do.
class Twins {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != c10::DeviceType::PrivateUse1) return tensor;
    at::Tensor& twin = twins_[tensor.unsafeGetTensorImpl()];  // a tensor that is given twice has one
    if (!twin.defined()) twin = made(tensor);
    return twin;
  }

  at::Tensor made(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    auto [row, is_new] = memory_.try_emplace(storage.unsafeGetStorageImpl());
    if (is_new) row->second = at::zeros({static_cast<int64_t>(storage.nbytes())}, at::kByte);
    return at::empty({0}, at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU))
        .set_(row->second.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  }

  c10::IValue of(const c10::IValue& value) {
    if (value.isTensor()) return of(value.toTensor());
    if (value.isDevice()) return c10::Device(at::kCPU);
    if (value.isGenerator()) return {};
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& each : value.toTensorVector()) list.push_back(of(each));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector())
        list.push_back(each ? std::optional(of(*each)) : std::nullopt);
      return list;
    }
    return value;
  }

 private:
  std::unordered_map<const c10::StorageImpl*, at::Tensor> memory_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> twins_;
};

int64_t bytes_of(const Call& call) {
  int64_t bytes = 0;
  for (const Argument& row : call.tensors) bytes += static_cast<int64_t>(row.tensor.storage().nbytes());
  return bytes;
}

// Warnings of the call itself come when it runs.
struct OfOverlaps final : c10::WarningHandler {
  explicit OfOverlaps(c10::WarningHandler* other) : other(other) {}
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("expanded tensors") != std::string::npos) other->process(warning);
  }
  c10::WarningHandler* other;
};

// What the host draws while it is asked is none of the program's.
struct KeepsNumbers {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  at::Tensor state = generator.get_state();
  ~KeepsNumbers() { generator.set_state(state); }
};

}  // namespace

bool refuses_same_memory(const std::string& name) {
  for (const char* part : {"index", "scatter", "gather", "put", "masked", "take", "::cat", "::stack"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

bool has_overlap(const Call& call, bool refuses_same) {
  const auto shares = [&](const Argument& to) {
    if (at::has_internal_overlap(to.tensor) == at::MemOverlap::Yes) return true;
    for (const Argument& from : call.tensors) {
      if (&from == &to || (from.tensor.is_same(to.tensor) && !refuses_same)) continue;
      const at::MemOverlapStatus status = at::get_overlap_status(to.tensor, from.tensor);
      if (status == at::MemOverlapStatus::Partial || (refuses_same && status == at::MemOverlapStatus::Full))
        return true;
    }
    return false;
  };
  for (const Argument& row : call.tensors)
    if (row.is_written && shares(row)) return bytes_of(call) <= kAskedBytesMax;
  return false;
}

void hold_overlap(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  Twins twins;
  torch::jit::Stack stack;
  for (const c10::IValue& value : arguments) stack.push_back(twins.of(value));
  const KeepsNumbers keeps;
  OfOverlaps handler(c10::WarningUtils::get_warning_handler());
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  try {
    op.callBoxed(stack);
  } catch (const c10::Error& fault) {
    if (fault.msg().find("unsupported operation") != std::string::npos) throw;
  }
}

void copy_to_shared(const at::Tensor& value, const at::Tensor& to) {
  at::Tensor place = to, rows = value;
  for (int64_t dim = 0; dim < place.dim(); ++dim) {
    if (place.stride(dim) != 0 || place.size(dim) < 2) continue;
    const at::Tensor one = place.narrow(dim, 0, 1), before = one.clone();
    at::Tensor now = rows.narrow(dim, 0, 1);
    for (int64_t i = 1; i < place.size(dim); ++i) {
      const at::Tensor row = rows.narrow(dim, i, 1);
      now = at::where(row.ne(before), row, now);
    }
    place = one;
    rows = now;
  }
  place.copy_(rows);
}

}  // namespace opentrn::torch_device
