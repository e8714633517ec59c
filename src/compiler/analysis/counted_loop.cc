#include "compiler/analysis/counted_loop.h"

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"

#include <algorithm>

namespace opentrn::compiler {

namespace {

const Op* maker_of(const Function& function, ValueId value) {
  const OpId id = function.value(value).op;
  return id == graph::kNoOp ? nullptr : &function.op(id);
}

const Op& return_of(const Function& function, BlockId block) {
  return function.op(function.block(block).ops.back());
}

}  // namespace

std::vector<graph::OpId> loops_of(const Function& function) {
  std::vector<graph::OpId> loops;
  graph::walk(function, function.body(), [&](graph::OpId id) {
    if (function.op(id).kind == OpKind::while_) loops.push_back(id);
  });
  return loops;
}

std::optional<CountedLoop> counted_loop(const Function& function, const Op& op) {
  const graph::Block& cond = function.block(op.regions[0]);
  const graph::Block& body = function.block(op.regions[1]);
  const Op* compare = maker_of(function, return_of(function, op.regions[0]).operands[0]);
  if (!compare || compare->kind != OpKind::compare_ || compare->block != op.regions[0]) return std::nullopt;
  const auto direction = compare->enumeration(Attr::comparison_direction, graph::ComparisonDirection::kEq);
  if (direction != graph::ComparisonDirection::kLt) return std::nullopt;
  const auto slot = std::find(cond.arguments.begin(), cond.arguments.end(), compare->operands[0]);
  if (slot == cond.arguments.end()) return std::nullopt;
  const ValueId bound = compare->operands[1];
  const graph::ElementType element = function.type(bound).element();
  if (element != graph::ElementType::kI32 && element != graph::ElementType::kI64) return std::nullopt;
  const graph::Value& made = function.value(bound);
  const bool from_outside =
      made.op == graph::kNoOp ? made.block != op.regions[0] : function.op(made.op).block != op.regions[0];
  if (!from_outside && !splat_of(function, bound)) return std::nullopt;
  const auto index = static_cast<size_t>(slot - cond.arguments.begin());
  const Op* add = maker_of(function, return_of(function, op.regions[1]).operands[index]);
  if (!add || add->kind != OpKind::add_) return std::nullopt;
  const size_t at = add->operands[0] == body.arguments[index] ? 0 : 1;
  const auto step = splat_of(function, add->operands[1 - at]);
  if (add->operands[at] != body.arguments[index] || !step || *step < 1) return std::nullopt;
  return CountedLoop{index, bound, static_cast<int64_t>(*step)};
}

std::optional<int64_t> constant_trips(const Function& function, const Op& loop) {
  const auto counted = counted_loop(function, loop);
  if (!counted) return std::nullopt;
  const auto lower = splat_of(function, loop.operands[counted->slot]),
             upper = splat_of(function, counted->bound);
  if (!lower || !upper) return std::nullopt;
  const auto from = static_cast<int64_t>(*lower), to = static_cast<int64_t>(*upper);
  return to <= from ? 0 : (to - from + counted->step - 1) / counted->step;
}

}  // namespace opentrn::compiler
