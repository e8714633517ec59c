#include "compiler/lowering/region.h"

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/takes.h"

#include <map>
#include <set>

namespace opentrn::compiler {

namespace {}  // namespace

bool is_elementwise_region(const graph::Function& function, graph::BlockId block_id) {
  const graph::Block& block = function.block(block_id);
  std::set<ValueId> known(block.arguments.begin(), block.arguments.end());
  for (const OpId id : block.ops) {
    const Op& op = function.op(id);
    for (const ValueId operand : op.operands)
      if (!known.contains(operand) && !splat_of(function, operand)) return false;
    if (op.kind != OpKind::return_ && !(op.kind == OpKind::constant_ && splat_of(function, op.results[0])) &&
        !has_elementwise(function, op))
      return false;
    if (op.kind != OpKind::constant_) known.insert(op.results.begin(), op.results.end());
  }
  return true;
}

std::vector<Term> emit_region(Emitter& emitter, const graph::Function& function, graph::BlockId block_id,
                              std::span<const Term> arguments, int64_t rows, int64_t columns) {
  const graph::Block& block = function.block(block_id);
  std::map<ValueId, Term> terms;
  for (size_t i = 0; i < arguments.size(); ++i) terms.emplace(block.arguments[i], arguments[i]);
  for (const OpId id : block.ops) {
    const Op& op = function.op(id);
    std::vector<Term> operands;
    for (const ValueId operand : op.operands) {
      const auto inside = terms.find(operand);
      operands.push_back(inside != terms.end() ? inside->second
                                               : Term{.element = function.type(operand).element(),
                                                      .splat = splat_of(function, operand),
                                                      .tile = {}});
    }
    if (op.kind == OpKind::return_) return operands;
    if (op.kind == OpKind::constant_) continue;
    terms[op.results[0]] = emit_elementwise(emitter, function, op, operands, rows, columns);
  }
  OPENTRN_CHECK(false, "a region ends without a return");
  return {};
}

}  // namespace opentrn::compiler
