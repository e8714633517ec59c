// Custom calls whose target is the name of a registered custom operator: one instruction of GpSimd, on whole
// tensors in HBM. What it costs is what its author states (isa/custom_ops.h).
#include <algorithm>

#include <fmt/format.h>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "isa/custom_ops.h"

namespace opentrn::compiler {

namespace {

bool takes_custom_operator(const Function& function, const Op& op) {
  if (op.kind != graph::OpKind::custom_call_ || !isa::has_custom_op(op.string(Attr::call_target_name)))
    return false;
  const auto fits = [&](graph::ValueId value) {
    const graph::Type& type = function.type(value);
    return type.is_tensor() && type.is_static() && type.element_count() > 0 && type.rank() <= isa::kMaxRank &&
           device_dtype(type.element());
  };
  return !op.results.empty() && std::all_of(op.operands.begin(), op.operands.end(), fits) &&
         std::all_of(op.results.begin(), op.results.end(), fits);
}

}  // namespace

bool has_custom_operator(const Function& function, const Op& op) {
  return takes_custom_operator(function, op);
}

bool lower_custom_operator(Lowering& lowering, const Op& op) {
  if (!takes_custom_operator(lowering.function(), op)) return false;
  std::vector<View> inputs, outputs;
  for (const graph::ValueId operand : op.operands) inputs.push_back(lowering.view(operand));
  for (const graph::ValueId result : op.results) outputs.push_back(lowering.allocate(result));
  lowering.emitter().custom_op(op.string(Attr::call_target_name), outputs, inputs);
  return true;
}

}  // namespace opentrn::compiler
