#include "compiler/lowering/step_rules.h"

#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/steps.h"

namespace opentrn::compiler {

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

bool StepRules::is_word(ValueId value) const {
  const graph::ElementType element = function.type(value).element();
  return element == graph::ElementType::kI32 || element == graph::ElementType::kUI32;
}

bool StepRules::is_bitwise(const Op& op) const {
  if (op.operands.size() != 2 || !is_word(op.results[0])) return false;
  switch (op.kind) {
    case OpKind::and_:
    case OpKind::or_:
    case OpKind::xor_:
    case OpKind::shift_left_:
    case OpKind::shift_right_logical_:
    case OpKind::shift_right_arithmetic_: return true;
    default: return false;
  }
}

// Of a number that an operator on bits takes; shifts by it alone.
std::optional<size_t> StepRules::place_of_bits(const Op& op) const {
  const auto first = splat_of(function, op.operands[0]), second = splat_of(function, op.operands[1]);
  const bool shifts = op.kind != OpKind::and_ && op.kind != OpKind::or_ && op.kind != OpKind::xor_;
  if (first.has_value() == second.has_value() || (shifts && (first || *second < 0))) return std::nullopt;
  const size_t place = second ? 1 : 0;
  const bool narrow = is_column(op.results[0]) || one_column;
  return narrow || !is_one_per_row(op.operands[1 - place]) ? std::optional(place) : std::nullopt;
}

bool StepRules::joins_words(const Op& op) const {
  const bool shifts = op.kind != OpKind::and_ && op.kind != OpKind::or_ && op.kind != OpKind::xor_;
  if (!is_bitwise(op) || shifts || op.operands[0] == op.operands[1] || one_column) return false;
  return !is_column(op.results[0]) && std::ranges::none_of(op.operands, [&](ValueId value) {
    return splat_of(function, value).has_value() || is_one_per_row(value);
  });
}

bool StepRules::makes_word(ValueId value) const {
  const auto seen = plan.seen_inside(index, value);
  if (!seen || seen->base != value || seen->form == Form::kColumn) return false;
  const graph::OpId maker = function.value(value).op;
  return maker != graph::kNoOp && is_bitwise(function.op(maker));
}

bool StepRules::keeps_words(const Op& op) const {
  const auto has_word = [&](ValueId value) { return is_word(value) || is_f32(value); };
  return op.kind == OpKind::bitcast_convert_ && has_word(op.operands[0]) && has_word(op.results[0]) &&
         function.type(op.operands[0]).rank() == function.type(op.results[0]).rank();
}

std::optional<size_t> StepRules::place_of_scalar(const Op& op) const {
  if (is_bitwise(op)) return place_of_bits(op);
  const bool narrow = is_column(op.results[0]) || one_column;
  if ((op.kind == OpKind::remainder_ || op.kind == OpKind::divide_) && is_f32(op.results[0])) {
    const ValueId data = op.operands[0];
    const bool is_full = !splat_of(function, data) && (narrow || !is_one_per_row(data));
    return is_full && splat_of(function, op.operands[1]) ? std::optional<size_t>(1) : std::nullopt;
  }
  if (!is_arithmetic(op)) return std::nullopt;
  const auto is_scalar = [&](ValueId value) {
    return splat_of(function, value).has_value() || (!narrow && is_one_per_row(value));
  };
  const bool first = is_scalar(op.operands[0]), second = is_scalar(op.operands[1]);
  if (first == second || (first && op.kind == OpKind::subtract_)) return std::nullopt;
  return second ? 1 : 0;
}

bool StepRules::waits_for(const Op& op, const Op& user, size_t steps) const {
  const bool same_form = is_column(user.results[0]) == is_column(op.results[0]);
  if (is_rounding(user)) return true;
  if (activation_function(user) && is_f32(user.results[0]) && steps == 1 && same_form) return true;
  if (steps == 1 && joins_tensors(user)) return true;
  const auto scalar = place_of_scalar(user);
  if (!scalar || steps >= kStepsMax || !same_form) return false;
  const auto data = plan.seen_inside(index, user.operands[1 - *scalar]);
  return data && data->base == op.results[0];
}

bool StepRules::joins_tensors(const Op& op) const {
  if (!is_arithmetic(op) || op.operands[0] == op.operands[1] || one_column) return false;
  if (is_column(op.results[0])) return false;
  return std::ranges::none_of(op.operands, [&](ValueId value) {
    return splat_of(function, value).has_value() || is_one_per_row(value);
  });
}

GroupUsers::GroupUsers(const graph::Function& function, const Plan& plan, int index) : function_(function) {
  for (const graph::OpId id : plan.groups()[static_cast<size_t>(index)].ops)
    for (const ValueId operand : function.op(id).operands)
      if (const auto seen = plan.seen_inside(index, operand)) {
        auto& users = users_[seen->base];
        users.first = id;
        ++users.second;
      }
}

const Op* GroupUsers::only(ValueId value, std::span<const graph::OpId> ops, bool others) const {
  const auto found = users_.find(value);
  if (found == users_.end() || found->second.second != 1 || others) return nullptr;
  return std::ranges::find(ops, found->second.first) == ops.end() ? nullptr
                                                                  : &function_.op(found->second.first);
}

bool GroupUsers::reduces(ValueId value, std::span<const graph::OpId> ops) const {
  return std::ranges::any_of(ops, [&](graph::OpId id) {
    const Op& op = function_.op(id);
    return op.kind == OpKind::reduce_ && op.operands[0] == value;
  });
}

}  // namespace opentrn::compiler
