// A reduction of no elements is its initial value: no kernel has to know.
#include "compiler/passes/passes.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Function;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

bool reduces_nothing(const Function& function, const graph::Op& op) {
  if (op.kind != OpKind::reduce_) return false;
  const graph::Type& operand = function.type(op.operands[0]);
  return operand.is_static() && operand.element_count() == 0;
}

}  // namespace

void replace_empty_reductions(Function& function) {
  for (size_t index = 0; index < function.block_count(); ++index) {
    const graph::BlockId block{static_cast<uint32_t>(index)};
    for (size_t at = 0; at < function.block(block).ops.size(); ++at) {
      const OpId reduction = function.block(block).ops[at];
      if (!reduces_nothing(function, function.op(reduction))) continue;
      const size_t count = function.op(reduction).results.size();
      for (size_t i = 0; i < count; ++i) {
        const ValueId result = function.op(reduction).results[i];
        const ValueId initial = function.op(reduction).operands[count + i];
        const OpId made = function.insert(block, at++, OpKind::broadcast_in_dim_, {initial},
                                          {function.type(result)}, function.op(reduction).location);
        function.op(made).set(Attr::broadcast_dimensions, std::vector<int64_t>{});
        function.replace_uses(result, function.op(made).results[0]);
      }
    }
  }
}

}  // namespace opentrn::compiler
