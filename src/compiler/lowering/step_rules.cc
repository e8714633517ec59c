#include "compiler/lowering/step_rules.h"

#include <algorithm>

#include "compiler/analysis/values.h"

namespace opentrn::compiler {

using graph::Op;
using graph::OpKind;
using graph::ValueId;

bool StepRules::is_f32(ValueId value) const {
  return function.type(value).element() == graph::ElementType::kF32;
}

bool StepRules::is_column(ValueId value) const {
  return plan.seen_inside(index, value)->form == Form::kColumn;
}

bool StepRules::is_rounding(const Op& op) const {
  if (op.kind != OpKind::convert_ || !is_f32(op.operands[0])) return false;
  const graph::ElementType to = function.type(op.results[0]).element();
  return to == graph::ElementType::kF32 || to == graph::ElementType::kBF16 || to == graph::ElementType::kF16;
}

bool StepRules::is_arithmetic(const Op& op) const {
  if (op.operands.size() != 2 || !is_f32(op.results[0]) || !is_f32(op.operands[0])) return false;
  return op.kind == OpKind::add_ || op.kind == OpKind::multiply_ || op.kind == OpKind::subtract_ ||
         op.kind == OpKind::maximum_ || op.kind == OpKind::minimum_;
}

bool StepRules::is_one_per_row(ValueId value) const {
  if (const auto seen = plan.seen_inside(index, value)) return seen->form == Form::kColumn;
  return operands.at({value, false}).same_in_every_column();
}

std::optional<size_t> StepRules::place_of_scalar(const Op& op) const {
  if (op.kind == OpKind::remainder_ && is_f32(op.results[0]))
    return splat_of(function, op.operands[1]) && !splat_of(function, op.operands[0])
               ? std::optional<size_t>(1)
               : std::nullopt;
  if (!is_arithmetic(op)) return std::nullopt;
  const bool narrow = is_column(op.results[0]) || one_column;
  const auto is_scalar = [&](ValueId value) {
    return splat_of(function, value).has_value() || (!narrow && is_one_per_row(value));
  };
  const bool first = is_scalar(op.operands[0]), second = is_scalar(op.operands[1]);
  if (first == second || (first && op.kind == OpKind::subtract_)) return std::nullopt;
  return second ? 1 : 0;
}

bool StepRules::joins_tensors(const Op& op) const {
  if (!is_arithmetic(op) || op.operands[0] == op.operands[1] || one_column) return false;
  if (is_column(op.results[0])) return false;
  return std::ranges::none_of(op.operands, [&](ValueId value) {
    return splat_of(function, value).has_value() || is_one_per_row(value);
  });
}

}  // namespace opentrn::compiler
