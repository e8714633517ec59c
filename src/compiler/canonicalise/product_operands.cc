// Products of operands of two types: float types, which XLA takes and the Tensor engine does not; and
// constants and arguments that are kept narrower than they are multiplied.
#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/number_sets.h"
#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {

namespace {

// A type that holds every number of both.
ElementType wider(ElementType a, ElementType b) {
  const int wide = graph::bit_width(a), narrow = graph::bit_width(b);
  if (wide == narrow) return ElementType::kF32;
  return wide > narrow ? a : b;
}

}  // namespace

void widen_product_operands(Function& function) {
  for (size_t block = 0; block < function.block_count(); ++block) {
    const graph::BlockId id{static_cast<uint32_t>(block)};
    for (size_t at = 0; at < function.block(id).ops.size(); ++at) {
      const OpId product = function.block(id).ops[at];
      const OpKind kind = function.op(product).kind;
      if (kind != OpKind::dot_general_ && kind != OpKind::convolution_) continue;
      const graph::Type lhs = function.type(function.op(product).operands[0]);
      const graph::Type rhs = function.type(function.op(product).operands[1]);
      if (lhs.quantization() || rhs.quantization() || lhs.element() == rhs.element() ||
          !graph::is_float(lhs.element()) || !graph::is_float(rhs.element()))
        continue;
      const ElementType common = wider(lhs.element(), rhs.element());
      for (size_t i = 0; i < 2; ++i) {
        const ValueId operand = function.op(product).operands[i];
        if (function.type(operand).element() == common) continue;
        const OpId made =
            function.insert(id, at++, OpKind::convert_, {operand},
                            {function.type(operand).with_element(common)}, function.op(product).location);
        function.op(product).operands[i] = function.op(made).results[0];
      }
    }
  }
}

int64_t read_narrow_operands(Function& function) {
  int64_t count = 0;
  graph::walk(function, function.body(), [&](OpId id) {
    if (function.op(id).kind != OpKind::dot_general_) return;
    for (size_t i = 0; i < 2; ++i) {
      graph::Op& op = function.op(id);
      const OpId maker = function.value(op.operands[i]).op;
      if (maker == graph::kNoOp || function.op(maker).kind != OpKind::convert_) continue;
      const ValueId kept = function.op(maker).operands[0];
      const ElementType wide = function.type(op.operands[i]).element();
      if (function.type(op.operands[1 - i]).element() != wide || !is_narrow_operand(function, kept, wide))
        continue;
      op.operands[i] = kept;
      ++count;
    }
  });
  return count;
}

}  // namespace opentrn::compiler
