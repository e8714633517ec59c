#include "compiler/lowering/region.h"

#include <map>
#include <set>

#include "compiler/lowering/plan.h"

namespace opentrn::compiler {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

// `inside`: what the blocks around, up to the op's, have made.
void find_captured(const graph::Function& function, graph::BlockId block_id, std::set<ValueId>& inside,
                   std::set<ValueId>& known, std::vector<ValueId>& captured) {
  const graph::Block& block = function.block(block_id);
  inside.insert(block.arguments.begin(), block.arguments.end());
  for (const OpId id : block.ops) {
    const Op& op = function.op(id);
    for (const ValueId operand : op.operands)
      if (!inside.contains(operand) && known.insert(operand).second) captured.push_back(operand);
    for (const graph::BlockId region : op.regions) find_captured(function, region, inside, known, captured);
    inside.insert(op.results.begin(), op.results.end());
  }
}

}  // namespace

std::vector<ValueId> captured_by(const graph::Function& function, const Op& op) {
  if (op.regions.empty()) return {};
  std::vector<ValueId> captured;
  std::set<ValueId> inside, known;
  for (const graph::BlockId region : op.regions) find_captured(function, region, inside, known, captured);
  return captured;
}

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
