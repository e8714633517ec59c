// Scaled dot product attention as one program forward and one backward, instead of an op after the other.
#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include "torch/attention.h"

namespace opentrn::torch_device {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Tensors that wrap others (fake tensors, vmap's) have rules for ops, not for this one; but DTensor has.
bool has_rule(const Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::FuncTorchBatched) || keys.has(c10::DispatchKey::FuncTorchGradWrapper))
    return false;
  return !keys.has(c10::DispatchKey::Python) || wrapper_has_attention(tensor);
}

// What the programs have a form for (opentrn.torch.attention); the rest goes op by op, as does what is
// to have a second derivative, which the user asks for as on every device: with sdpa_kernel(SDPBackend.MATH).
bool has_program(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                 double dropout, bool causal, bool grouped) {
  const at::ScalarType type = query.scalar_type();
  const bool is_float = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  if (!is_float || key.scalar_type() != type || value.scalar_type() != type || dropout != 0) return false;
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return false;
  for (const Tensor& each : {query, key, value})  // of a traced program: sizes are not numbers there
    if (each.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
  if (query.numel() == 0 || key.numel() == 0) return false;
  if (query.size(0) != key.size(0) || key.size(0) != value.size(0) || key.size(1) != value.size(1))
    return false;
  if (query.size(1) != key.size(1) && (!grouped || query.size(1) % key.size(1) != 0)) return false;
  const bool has_mask = mask.has_value() && mask->defined();
  return !has_mask || (!causal && !mask->requires_grad());
}

int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
               double dropout, bool causal, std::optional<double>, bool grouped) {
  const bool fused = at::globalContext().userEnabledOverrideableSDP() && has_rule(query) && has_rule(key) &&
                     has_rule(value) && has_program(query, key, value, mask, dropout, causal, grouped);
  return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

double scale_of(std::optional<double> scale, const Tensor& query) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
}

// The ops of opentrn.torch.attention.
using Forward = Tensor(const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, bool, double);
using Backward = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&,
                                                    const Tensor&, const OptionalTensor&, const Tensor&, bool,
                                                    double);

template <typename Signature>
auto op_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Of the other results only the sizes say anything: the backward program computes the weights anew.
std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias, double dropout,
    bool causal, bool, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(has_program(query, key, value, bias, dropout, causal, true),
                              "the device neuron has no fused attention of these arguments; "
                              "scaled_dot_product_attention takes another way for them");
  static const auto op = op_named<Forward>("opentrn::attention");
  const Tensor out = op.call(query, key, value, bias, causal, scale_of(scale, query));
  return {out,      Tensor(), Tensor(), Tensor(), query.sym_size(2), key.sym_size(2),
          Tensor(), Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& gradient, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    std::array<bool, 4>, const Tensor& out, const Tensor&, const Tensor&, const Tensor&, c10::SymInt,
    c10::SymInt, double, bool causal, const Tensor&, const Tensor&, std::optional<double> scale) {
  static const auto op = op_named<Backward>("opentrn::attention_backward");
  const OptionalTensor mask = bias.defined() ? OptionalTensor(bias) : std::nullopt;
  auto [q, k, v] = op.call(gradient, query, key, value, mask, out, causal, scale_of(scale, query));
  return {q, k, v, Tensor()};
}

}  // namespace

}  // namespace opentrn::torch_device

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &opentrn::torch_device::choose)
}  // namespace at::native

namespace opentrn::torch_device {

namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_fused_sdp_choice", &choose);
  library.impl("_scaled_dot_product_fused_attention_overrideable", &forward);
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", &backward);
}

}  // namespace

}  // namespace opentrn::torch_device
