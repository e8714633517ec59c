#include <algorithm>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

bool must_stay(const Op& op) {
  return op.kind == OpKind::return_ || graph::definition(op.kind).has_side_effect ||
         graph::definition(op.kind).op_class == graph::OpClass::kCollective;
}

// Something in the op's regions has an effect.
bool holds_what_must_stay(const graph::Function& function, const Op& op) {
  bool found = false;
  for (const BlockId region : op.regions)
    graph::walk(function, region, [&](OpId id) {
      found |= function.op(id).kind != OpKind::return_ && must_stay(function.op(id));
    });
  return found;
}

// Backwards, so that a reader is judged before what it reads. True when something of the block stays that
// must stay.
void mark(const graph::Function& function, BlockId block, std::vector<bool>& read, std::vector<bool>& stays) {
  const auto& ops = function.block(block).ops;
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const Op& op = function.op(*it);
    const bool wanted = must_stay(op) || std::any_of(op.results.begin(), op.results.end(),
                                                     [&](ValueId value) { return read[index_of(value)]; });
    if (!wanted && !holds_what_must_stay(function, op)) continue;
    stays[index_of(*it)] = true;
    for (const ValueId value : op.operands) read[index_of(value)] = true;
    for (const BlockId region : op.regions) mark(function, region, read, stays);
  }
}

}  // namespace

void remove_dead_ops(graph::Function& function) {
  std::vector<bool> read(function.value_count()), stays(function.op_count());
  mark(function, function.body(), read, stays);
  for (size_t i = 0; i < function.block_count(); ++i) {
    auto& ops = function.block(BlockId{static_cast<uint32_t>(i)}).ops;
    std::erase_if(ops, [&](OpId id) { return !stays[index_of(id)]; });
  }
}

}  // namespace opentrn::compiler
