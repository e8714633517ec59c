#include "compiler/analysis/cost.h"

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/host_call.h"
#include "graph/kernel_call.h"
#include "graph/op_definitions.h"
#include "isa/kernel.h"

namespace opentrn::compiler {

namespace {

double elements(const Function& function, graph::ValueId value) {
  const graph::Type& type = function.type(value);
  return type.is_tensor() && type.is_static() ? static_cast<double>(type.element_count()) : 0;
}

double contracted(const Function& function, const Op& op) {
  double count = 1;
  if (!op.has(Attr::lhs_contracting_dimensions)) return count;
  const graph::Type& lhs = function.type(op.operands[0]);
  for (const int64_t dim : op.integers(Attr::lhs_contracting_dimensions))
    count *= static_cast<double>(lhs.dim(static_cast<int>(dim)));
  return count;
}

// Weights that one result element is the sum of.
double convolved(const Function& function, const Op& op) {
  const auto features = static_cast<int>(op.integer(Attr::kernel_output_feature_dimension));
  const auto outputs = static_cast<double>(function.type(op.operands[1]).dim(features));
  return outputs == 0 ? 0 : elements(function, op.operands[1]) / outputs;
}

double window(const Op& op) {
  double count = 1;
  for (const int64_t dim : op.integers(Attr::window_dimensions)) count *= static_cast<double>(dim);
  return count;
}

// Of a user's kernel, the products that its program has.
double kernel_flops(const Op& op) {
  const std::string_view text = graph::kernel_payload(op);
  return isa::is_kernel_text(text) ? isa::matmul_flops(isa::kernel_from_text(text).program) : 0;
}

bool only_moves(OpKind kind) {
  switch (kind) {
    case OpKind::convert_:
    case OpKind::bitcast_convert_:
    case OpKind::reduce_precision_:
    case OpKind::get_dimension_size_:
    case OpKind::set_dimension_size_:
    case OpKind::real_:
    case OpKind::imag_:
    case OpKind::complex_: return true;
    default: return false;
  }
}

}  // namespace

double flops(const Function& function, const Op& op) {
  if (op.results.empty()) return 0;
  if (is_host_call(op)) return host_flops(op);
  if (graph::is_kernel_call(op)) return kernel_flops(op);
  const double results = elements(function, op.results[0]);
  switch (op.kind) {
    case OpKind::dot_general_: return 2 * results * contracted(function, op);
    case OpKind::convolution_: return 2 * results * convolved(function, op);
    case OpKind::reduce_window_: return results * window(op);
    case OpKind::reduce_: return elements(function, op.operands[0]);
    case OpKind::select_:
    case OpKind::clamp_: return results;
    default: break;
  }
  if (only_moves(op.kind)) return 0;
  const graph::OpClass op_class = graph::definition(op.kind).op_class;
  const bool elementwise =
      op_class == graph::OpClass::kUnaryElementwise || op_class == graph::OpClass::kBinaryElementwise;
  return elementwise ? results : 0;
}

double terms(const Function& function, const Op& op) {
  switch (op.kind) {
    case OpKind::dot_general_: return contracted(function, op);
    case OpKind::convolution_: return convolved(function, op);
    case OpKind::reduce_window_: return window(op);
    case OpKind::reduce_: {
      const double results = elements(function, op.results[0]);
      return results == 0 ? 1 : elements(function, op.operands[0]) / results;
    }
    case OpKind::scatter_: return 1 + elements(function, op.operands.back());
    default: return 1;
  }
}

}  // namespace opentrn::compiler
