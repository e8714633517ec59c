// Uniform quantization: real = (stored - zero_point) * scale. Ops on quantized tensors dequantise, compute
// and quantise, as the spec defines them (dequantize_op_quantize).
#include <algorithm>
#include <cmath>

#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"
#include "graph/eval/rounding.h"
#include "graph/op_definitions.h"

namespace opentrn::graph::eval {

namespace {

// The scale and zero point of each element: of the tensor, or of its index along the quantized axis.
template <typename Visit>
void for_each_scale(const Call& call, const Type& type, Visit&& visit) {
  const Quantization& q = *type.quantization();
  const size_t wanted =
      q.per_axis() ? static_cast<size_t>(q.axis < type.rank() ? type.dim(static_cast<int>(q.axis)) : 0) : 1;
  if (q.scales.size() != wanted || q.zero_points.size() > q.scales.size())
    call.fail(fmt::format("{} scales and {} zero points for {}", q.scales.size(), q.zero_points.size(),
                          type.to_string()));
  const Dims strides = row_major_strides(type.dims());
  const int64_t count = type.element_count();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t channel =
        q.per_axis() ? i / strides[static_cast<size_t>(q.axis)] % type.dim(static_cast<int>(q.axis)) : 0;
    const auto at = static_cast<size_t>(channel);
    const int64_t zero_point = at < q.zero_points.size() ? q.zero_points[at] : 0;
    visit(static_cast<size_t>(i), round_to(q.expressed, q.scales[at]), static_cast<double>(zero_point));
  }
}

Tensor dequantize(const Call& call, const Tensor& tensor) {
  const ElementType expressed = tensor.type().quantization()->expressed;
  std::vector<Real> values(static_cast<size_t>(tensor.size()));
  const std::vector<int64_t> stored = integers_of(tensor);
  for_each_scale(call, tensor.type(), [&](size_t i, double scale, double zero_point) {
    values[i] = (static_cast<double>(stored[i]) - zero_point) * scale;
  });
  return call.finish(tensor.type().with_element(expressed), std::move(values));
}

// Every step in the expressed type.
Tensor quantize(const Call& call, const Tensor& tensor, const Type& type) {
  const Quantization& q = *type.quantization();
  const auto rounded = [&](double value) {
    return call.options().float64 ? value : round_to(q.expressed, value);
  };
  const auto& values = tensor.values<Real>();
  const double low = round_to(q.expressed, static_cast<double>(q.storage_min));
  const double high = round_to(q.expressed, static_cast<double>(q.storage_max));
  Storage stored = zeros(q.storage, tensor.size());
  for_each_scale(call, type, [&](size_t i, double scale, double zero_point) {
    const double shifted = rounded(rounded(values[i] / scale) + zero_point);
    // An f32 limit of i32 lies above the integer: the code itself is limited too. NaN is stored as 0.
    const double code = std::isnan(shifted) ? 0 : std::nearbyint(std::clamp(shifted, low, high));
    const double inside =
        std::clamp(code, static_cast<double>(q.storage_min), static_cast<double>(q.storage_max));
    std::visit(
        [&]<typename T>(std::vector<T>& all) {
          if constexpr (std::is_same_v<T, Signed> || std::is_same_v<T, Unsigned>)
            all[i] = static_cast<T>(inside);
        },
        stored);
  });
  return Tensor(type, std::move(stored));
}

Type sized(const Type& type, const Tensor& like) {
  return type.with_dims({like.dims().begin(), like.dims().end()});
}

bool computes(const Call& call) {
  switch (call.kind()) {
    case OpKind::convert_:
    case OpKind::bitcast_convert_:
    case OpKind::uniform_quantize_:
    case OpKind::uniform_dequantize_: return false;
    case OpKind::clamp_:
    case OpKind::select_:
    case OpKind::dot_:
    case OpKind::dot_general_:
    case OpKind::convolution_:
    case OpKind::dynamic_conv_:
    case OpKind::batch_norm_grad_:
    case OpKind::batch_norm_inference_:
    case OpKind::batch_norm_training_:
    case OpKind::cholesky_:
    case OpKind::triangular_solve_: return true;
    default: break;
  }
  const OpClass op_class = definition(call.kind()).op_class;
  return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise ||
         op_class == OpClass::kBroadcasting;
}

}  // namespace

Tensor uniform_dequantize(const Call& call) {
  const Tensor& operand = call.tensor(0);
  if (!operand.type().quantization())
    call.fail(fmt::format("{} is not quantized", operand.type().to_string()));
  return dequantize(call, operand);
}

Tensor uniform_quantize(const Call& call) {
  const Tensor& operand = call.tensor(0);
  if (!call.stated().quantization()) call.fail(fmt::format("{} is not quantized", call.stated().to_string()));
  const Tensor real = operand.type().quantization() ? dequantize(call, operand) : operand;
  return quantize(call, real, sized(call.stated(), operand));
}

bool is_quantized_arithmetic(const Call& call) {
  for (size_t i = 0; i < call.operand_count(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&call.operands()[i].value);
    if (tensor && tensor->type().quantization()) return computes(call);
  }
  return false;
}

Items dequantize_op_quantize(Call& call, Items (*body)(Call&)) {
  for (size_t i = 0; i < call.operand_count(); ++i)
    if (call.tensor(i).type().quantization()) call.set_operand(i, dequantize(call, call.tensor(i)));
  std::vector<Type> stated;
  std::vector<Type> expressed;
  for (size_t i = 0; i < call.op().results.size(); ++i) {
    stated.push_back(call.stated(i));
    const Quantization* q = stated.back().quantization();
    expressed.push_back(q ? stated.back().with_element(q->expressed) : stated.back());
  }
  call.set_stated(std::move(expressed));
  Items results = body(call);
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& real = std::get<Tensor>(results[i].value);
    if (stated[i].quantization()) results[i] = quantize(call, real, sized(stated[i], real));
  }
  return results;
}

}  // namespace opentrn::graph::eval
