#include "compiler/lowering/scalars.h"

#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/lowering.h"

namespace opentrn::compiler {

namespace {

bool is_signed_word(ElementType element) {
  return element == ElementType::kI32 || element == ElementType::kI64 || element == ElementType::kIndex;
}

bool fits_a_register(const graph::Function& function, ValueId id) {
  const graph::Type& type = function.type(id);
  return type.is_tensor() && type.is_static() && !type.quantization() && type.element_count() == 1 &&
         (is_signed_word(type.element()) || graph::is_bool(type.element()));
}

AluOp comparison(graph::ComparisonDirection direction) {
  switch (direction) {
    case graph::ComparisonDirection::kEq: return AluOp::kEqual;
    case graph::ComparisonDirection::kNe: return AluOp::kNotEqual;
    case graph::ComparisonDirection::kGe: return AluOp::kGreaterEqual;
    case graph::ComparisonDirection::kGt: return AluOp::kGreater;
    case graph::ComparisonDirection::kLe: return AluOp::kLessEqual;
    default: return AluOp::kLess;
  }
}

AluOp arithmetic(OpKind kind, bool is_bool) {
  switch (kind) {
    case OpKind::add_: return is_bool ? AluOp::kBitwiseOr : AluOp::kAdd;
    case OpKind::multiply_: return is_bool ? AluOp::kBitwiseAnd : AluOp::kMultiply;
    case OpKind::subtract_: return AluOp::kSubtract;
    case OpKind::maximum_: return AluOp::kMaximum;
    case OpKind::minimum_: return AluOp::kMinimum;
    case OpKind::and_: return AluOp::kBitwiseAnd;
    case OpKind::or_: return AluOp::kBitwiseOr;
    default: return AluOp::kBitwiseXor;
  }
}

}  // namespace

bool is_address(const Op& op, size_t operand) {
  switch (op.kind) {
    case OpKind::dynamic_slice_: return operand >= 1;
    case OpKind::dynamic_update_slice_: return operand >= 2;
    case OpKind::if_:
    case OpKind::case_: return operand == 0;
    default: return false;
  }
}

bool is_register_op(const graph::Function& function, const Op& op) {
  const auto fits = [&](ValueId id) { return fits_a_register(function, id); };
  if (op.results.size() != 1 || !fits(op.results[0]) ||
      !std::all_of(op.operands.begin(), op.operands.end(), fits))
    return false;
  const bool is_bool = graph::is_bool(function.type(op.results[0]).element());
  switch (op.kind) {
    case OpKind::reshape_:
    case OpKind::broadcast_in_dim_:
    case OpKind::slice_:
    case OpKind::add_:
    case OpKind::multiply_:
    case OpKind::maximum_:
    case OpKind::minimum_:
    case OpKind::and_:
    case OpKind::or_:
    case OpKind::xor_:
    case OpKind::compare_:
    case OpKind::select_:
    case OpKind::clamp_: return true;
    case OpKind::subtract_:
    case OpKind::negate_: return !is_bool;
    // A boolean of an integer would need a comparison with zero.
    case OpKind::convert_: return !is_bool || graph::is_bool(function.type(op.operands[0]).element());
    default: return false;
  }
}

Lowering::Scalar Lowering::scalar(ValueId value) {
  if (const auto found = scalars_.find(value); found != scalars_.end()) return found->second;
  if (const auto number = splat_of(function_, value)) return static_cast<int64_t>(*number);
  const graph::OpId id = function_.value(value).op;
  Scalar result;
  if (id != graph::kNoOp && is_register_op(function_, function_.op(id)) && !lies_in_memory(value)) {
    result = scalar_of_op(function_.op(id));
  } else {
    const isa::RegisterId loaded = emitter_.new_register();
    emitter_.register_load(loaded, view(value));
    result = loaded;
  }
  set_scalar(value, result);
  return result;
}

Lowering::Scalar Lowering::scalar_of_op(const Op& op) {
  std::vector<Scalar> in;
  for (const ValueId operand : op.operands) in.push_back(scalar(operand));
  const auto alu = [this](AluOp with, const Scalar& a, const Scalar& b) {
    return registers_.alu(with, a, b);
  };
  switch (op.kind) {
    case OpKind::reshape_:
    case OpKind::broadcast_in_dim_:
    case OpKind::slice_:
    case OpKind::convert_: return in[0];
    case OpKind::negate_: return alu(AluOp::kSubtract, int64_t{0}, in[0]);
    case OpKind::compare_: {
      const auto direction = op.enumeration(Attr::comparison_direction, graph::ComparisonDirection::kEq);
      return alu(comparison(direction), in[0], in[1]);
    }
    case OpKind::select_:  // on_false + predicate * (on_true - on_false); wraps as the sum does
      if (const auto* chosen = std::get_if<int64_t>(&in[0])) return *chosen != 0 ? in[1] : in[2];
      return alu(AluOp::kAdd, alu(AluOp::kMultiply, alu(AluOp::kSubtract, in[1], in[2]), in[0]), in[2]);
    case OpKind::clamp_: return alu(AluOp::kMinimum, alu(AluOp::kMaximum, in[1], in[0]), in[2]);
    default: {
      const bool is_bool = graph::is_bool(function_.type(op.results[0]).element());
      return alu(arithmetic(op.kind, is_bool), in[0], in[1]);
    }
  }
}

}  // namespace opentrn::compiler
