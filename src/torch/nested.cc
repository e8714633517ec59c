// Nested tensors of the strided layout. Their memory may lie on the device, and no op of theirs runs there;
// those of the jagged layout are ordinary tensors with offsets, whose ops do. Sparse tensors have none
// either.
#include <ATen/NestedTensorImpl.h>
#include <torch/library.h>

namespace opentrn::torch_device {

namespace {

// A tensor of the host, wherever the memory is. Autograd asks for it in a destructor, which an error would
// end the process in.
at::Tensor sizes_of(const at::Tensor& self) { return at::native::get_nested_sizes(self); }

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().operator_name(),
                              ": a nested tensor of the strided layout has no ops on device neuron; try "
                              "layout=torch.jagged, or keep it on the CPU");
}

// What torch.nn.TransformerEncoder asks for before it takes its padding out by a nested tensor: with "no" it
// masks the padding. Results differ where the padding is, which a nested tensor gives as zeros.
bool is_left_aligned(const at::Tensor&, const at::Tensor&) { return false; }

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

void refuse_sparse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().operator_name(),
                              ": there are no sparse tensors on device neuron; try sparse=False where it is "
                              "an embedding's gradient, or keep it on the CPU");
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, library) { library.impl("_nested_tensor_size", &sizes_of); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_nested_tensor_from_mask_left_aligned", &is_left_aligned);
}

}  // namespace

}  // namespace opentrn::torch_device
