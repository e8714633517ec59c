#include "compiler/analysis/host_call.h"
#include "compiler/analysis/graph_names.h"

#include "compiler/lowering/lowering.h"

namespace opentrn::compiler {

bool has_host_call(const graph::Function&, const Op& op) { return is_host_call(op); }

bool lower_host_call(Lowering& lowering, const Op& op) {
  if (!is_host_call(op)) return false;
  std::vector<View> inputs, outputs;
  for (const ValueId operand : op.operands) inputs.push_back(lowering.view(operand));
  for (const ValueId result : op.results) outputs.push_back(lowering.allocate(result));
  const auto* text = op.find(Attr::backend_config)->get<std::string>();
  OPENTRN_CHECK(text, "a host call without a module");
  lowering.emitter().host_call(*text, outputs, inputs);
  return true;
}

}  // namespace opentrn::compiler
