// Ops that make tensors, look at them in another way, or move them: those that no program of the device does.
#include <cstring>

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/NativeFunctions.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "torch/device.h"
#include "torch/eager.h"
#include "torch/host_view.h"

namespace opentrn::torch_device {

namespace {

at::Tensor view_at(void* data, const at::Tensor& tensor) {
  const at::Tensor view = at::from_blob(data, tensor.sizes(), tensor.strides(),
                                        at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU));
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

}  // namespace

at::Tensor host_view(const at::Tensor& tensor) { return view_at(tensor.data_ptr(), tensor); }

at::Tensor read_view(const at::Tensor& tensor) {
  return view_at(const_cast<void*>(tensor.const_data_ptr()), tensor);
}

namespace {

using at::Tensor;
using OptionalInt = std::optional<int64_t>;
constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Device place_of(std::optional<at::Device> device) {
  const c10::Device given = device.value_or(c10::Device(c10::DeviceType::PrivateUse1, -1));
  return {c10::DeviceType::PrivateUse1, given.has_index() ? given.index() : current_device()};
}

void check_options(std::optional<at::Layout> layout, std::optional<bool> pinned) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided,
              "the device neuron has strided tensors only; this one is ", *layout);
  TORCH_CHECK(!pinned.value_or(false), "only memory of the CPU is pinned");
}

// All memory of a tensor, in its type.
Tensor whole(const Tensor& tensor) {
  const auto count = static_cast<int64_t>(tensor.storage().nbytes() / tensor.dtype().itemsize());
  return at::from_blob(tensor.storage().mutable_data(), {count},
                       at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU));
}

bool has_64_bits(const Tensor& tensor) {
  return tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kUInt64;
}

// Programs refuse whole numbers that 32 bits do not hold, and an op that writes some elements reads the
// others: what memory held before must not be such a number. Other types are filled where the program asks
// for the same results every time.
void fill_new(Tensor made) {
  if (has_64_bits(made)) {
    std::memset(made.mutable_data_ptr(), 0, made.nbytes());
  } else if (at::globalContext().deterministicAlgorithms() &&
             at::globalContext().deterministicFillUninitializedMemory() && made.numel() != 0) {
    at::native::fill_empty_deterministic_(made);
  }
}

Tensor within_range(Tensor made) {
  fill_new(whole(made));
  return made;
}

Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
             std::optional<at::Device> device, std::optional<bool> pinned,
             std::optional<at::MemoryFormat> format) {
  check_options(layout, pinned);
  const c10::DeviceGuard guard(place_of(device));
  return within_range(at::detail::empty_generic(sizes, c10::GetAllocator(c10::DeviceType::PrivateUse1), kKeys,
                                                c10::dtype_or_default(dtype), format));
}

Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout> layout, std::optional<at::Device> device,
                     std::optional<bool> pinned) {
  check_options(layout, pinned);
  const c10::DeviceGuard guard(place_of(device));
  return within_range(at::detail::empty_strided_generic(
      sizes, strides, c10::GetAllocator(c10::DeviceType::PrivateUse1), kKeys, c10::dtype_or_default(dtype)));
}

const Tensor& resize(const Tensor& self, c10::SymIntArrayRef sizes, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  const auto before = static_cast<int64_t>(self.storage().nbytes() / self.dtype().itemsize());
  at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(sizes), format);
  const auto now = static_cast<int64_t>(self.storage().nbytes() / self.dtype().itemsize());
  if (now > before) fill_new(whole(self).narrow(0, before, now - before));
  return self;
}

bool on_device(const Tensor& tensor) { return tensor.device().type() == c10::DeviceType::PrivateUse1; }

// By a program of the core.
Tensor converted(const Tensor& from, at::ScalarType type) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_to_copy", "");
  torch::jit::Stack stack;
  torch::jit::push(stack, from, type, c10::IValue(), c10::IValue(), c10::IValue(), false, c10::IValue());
  run_boxed(op, &stack);
  return stack.back().toTensor();
}

// Copies tensors whose elements lie alike; false when they do not. torch's own copy hands more than 32768
// elements to the threads of its OpenMP, whose waking and waiting costs more than most copies, and takes the
// simulator's cores.
bool copied_as_bytes(const Tensor& from, const Tensor& to) {
  const bool alike = from.layout() == at::kStrided && from.dtype() == to.dtype() &&
                     from.sizes() == to.sizes() && from.strides() == to.strides() &&
                     from.is_conj() == to.is_conj() && from.is_neg() == to.is_neg() &&
                     to.is_non_overlapping_and_dense();
  if (alike) std::memmove(to.data_ptr(), from.const_data_ptr(), to.nbytes());
  return alike;
}

// Between devices the values are copied as they are: a conversion is a program of the core that has the
// source.
Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  if (from.numel() == 0 && to.numel() == 0) return to;
  at::assert_no_internal_overlap(to);
  at::assert_no_partial_overlap(to, from);
  Tensor source = from;
  // Copies see negative and conjugate views as they are; a program reads what lies in memory.
  if (on_device(from) && from.dtype() != to.dtype())
    source = converted(from.resolve_conj().resolve_neg(), to.scalar_type());
  if (!copied_as_bytes(source, to)) {
    const Tensor left = on_device(to) ? host_view(to) : to;
    const Tensor right = on_device(source) ? read_view(source) : source;
    left.copy_(right);
  }
  if (on_device(from) && on_device(to)) note_copy(to.device().index(), static_cast<int64_t>(to.nbytes()));
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const Tensor& self) {
  return at::native::_local_scalar_dense_cpu(read_view(self));
}

Tensor& set_from_tensor(Tensor& self, const Tensor& source) { return at::native::set_tensor_(self, source); }
Tensor& set_from_storage(Tensor& self, at::Storage source) { return at::native::set_(self, source); }
Tensor& set_from_storage_at(Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef sizes,
                            c10::SymIntArrayRef strides) {
  return at::native::set_storage_cpu_(self, source, offset.expect_int(), C10_AS_INTARRAYREF_SLOW(sizes),
                                      C10_AS_INTARRAYREF_SLOW(strides));
}
Tensor& set_nothing(Tensor& self) {
  const c10::Storage nothing(c10::Storage::use_byte_size_t(), 0,
                             c10::GetAllocator(c10::DeviceType::PrivateUse1), true);
  self.set_(nothing, 0, {0}, {});
  return self;
}

Tensor as_strided(const Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                  std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(sizes),
                                           C10_AS_INTARRAYREF_SLOW(strides),
                                           offset ? OptionalInt(offset->expect_int()) : std::nullopt);
}
Tensor view(const Tensor& self, c10::SymIntArrayRef sizes) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}
Tensor reshape_alias(const Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}

// A comparison by the core, of which the host reads one value. A core sees 32 bits of a wider number, so
// those are compared by the host, which is told or refused.
bool equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dtype() == other.dtype() && self.device() == other.device(),
              "torch.equal compares tensors of one type on one device, not ", self.dtype(), " on ",
              self.device(), " and ", other.dtype(), " on ", other.device());
  if (!self.sizes().equals(other.sizes())) return false;
  if (self.numel() == 0) return true;
  if (c10::toRealValueType(self.scalar_type()) != at::kDouble && self.scalar_type() != at::kLong &&
      self.scalar_type() != at::kUInt64)
    return at::eq(self, other).all().item<bool>();
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::equal", "");
  torch::jit::Stack stack;
  torch::jit::push(stack, self, other);
  run_boxed(op, &stack);
  return stack.back().toBool();
}

// PyTorch calls fused cells on every device but the CPU. Here they are their formulas, and so have
// derivatives; the third result is a workspace of the fused kernels, which nothing reads.
Tensor with_bias(const Tensor& gates, const std::optional<Tensor>& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input, const Tensor& hidden, const Tensor& cell,
                                             const std::optional<Tensor>& input_bias,
                                             const std::optional<Tensor>& hidden_bias) {
  const Tensor gates = with_bias(input, input_bias) + with_bias(hidden, hidden_bias);
  const auto parts = gates.chunk(4, 1);
  const Tensor next = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
  return {parts[3].sigmoid() * next.tanh(), next, gates.detach()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input, const Tensor& hidden, const Tensor& state,
                                    const std::optional<Tensor>& input_bias,
                                    const std::optional<Tensor>& hidden_bias) {
  const auto x = with_bias(input, input_bias).chunk(3, 1);
  const auto h = with_bias(hidden, hidden_bias).chunk(3, 1);
  const Tensor reset = (x[0] + h[0]).sigmoid(), keep = (x[1] + h[1]).sigmoid();
  const Tensor made = (x[2] + reset * h[2]).tanh();
  return {keep * (state - made) + made, reset.detach()};
}

// That a stream uses the tensor, so that its memory is not given away before. The host runs programs in the
// order of the calls, on whatever stream, and memory that is given away is written by later ones only.
void record_stream(at::Tensor&, c10::Stream) {}

// Whether `x.data = y` may be, which moves a parameter and keeps its identity. PyTorch lists the devices of
// its own between which it may; tensors of a core and of the host are laid out alike too.
bool may_take_data(const at::Tensor& self, const at::Tensor& from) {
  constexpr c10::DispatchKeySet dense(c10::DispatchKey::Dense);
  constexpr c10::DispatchKeySet alike({c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
  const auto is_alike = [&](const at::Tensor& tensor) {
    return tensor.key_set().has_any(dense) && tensor.key_set().has_any(alike);
  };
  return (is_alike(self) && is_alike(from)) ||
         self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  library.impl("_has_compatible_shallow_copy_type", &may_take_data);
  library.impl("_thnn_fused_lstm_cell", &lstm_cell);
  library.impl("_thnn_fused_gru_cell", &gru_cell);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_has_compatible_shallow_copy_type", &may_take_data);
  library.impl("record_stream", &record_stream);
  library.impl("_thnn_fused_lstm_cell", &lstm_cell);
  library.impl("_thnn_fused_gru_cell", &gru_cell);
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("resize_", &resize);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &local_scalar_dense);
  library.impl("set_.source_Tensor", &set_from_tensor);
  library.impl("set_.source_Storage", &set_from_storage);
  library.impl("set_.source_Storage_storage_offset", &set_from_storage_at);
  library.impl("set_", &set_nothing);
  library.impl("as_strided", &as_strided);
  library.impl("view", &view);
  library.impl("_reshape_alias", &reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("view_as_complex", &at::native::view_as_complex);
  library.impl("equal", &equal);
  library.impl("is_set_to", &at::native::is_set_to);
}

// A copy reads conjugate and negative bits itself. Resolved before, by a copy, they would be resolved for
// ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
  library.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, library) {
  library.impl("_copy_from", torch::CppFunction::makeFallthrough());
  library.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace

}  // namespace opentrn::torch_device
