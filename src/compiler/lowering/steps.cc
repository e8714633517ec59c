#include "compiler/lowering/steps.h"

#include <algorithm>
#include <optional>

#include "compiler/lowering/elementwise.h"
#include "cost/usual.h"

namespace opentrn::compiler {

namespace {

bool is_number(const Step& step, AluOp op, double number) {
  const auto* value = std::get_if<double>(&step.scalar);
  return step.op == op && value && *value == number;
}

// max(data, 0) and data + column, in this order or alone, as one activation.
struct AsActivation {
  ActivationFunction function = ActivationFunction::kCopy;
  std::optional<Tile> bias;
  std::optional<double> bias_number;
  bool bias_is_subtracted = false;
  double scale = 1.0;
};

std::optional<AsActivation> as_activation(const Steps& steps) {
  AsActivation result;
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const Step& step = steps.steps[i];
    const auto* column = std::get_if<Tile>(&step.scalar);
    const auto* number = std::get_if<double>(&step.scalar);
    if (i == 0 && (step.op == AluOp::kAdd || step.op == AluOp::kSubtract) && column) {
      result.bias = *column;
      result.bias_is_subtracted = step.op == AluOp::kSubtract;
    } else if (i == 0 && (step.op == AluOp::kAdd || step.op == AluOp::kSubtract) && number) {
      result.bias_number = step.op == AluOp::kAdd ? *number : -*number;
    } else if (i == 0 && step.op == AluOp::kMultiply && number) {
      result.scale = *number;
    } else if (i + 1 == steps.steps.size() && is_number(step, AluOp::kMaximum, 0.0)) {
      result.function = ActivationFunction::kRelu;
    } else {
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace

// The bias of an activation is a column of fp32.
bool can_activate(const Steps& steps) {
  if (steps.then || steps.steps.size() > 1) return false;
  if (steps.steps.empty()) return true;
  const Step& step = steps.steps[0];
  const auto* column = std::get_if<Tile>(&step.scalar);
  if (column)
    return (step.op == AluOp::kAdd || step.op == AluOp::kSubtract) && column->dtype == DType::kFloat32;
  return step.op == AluOp::kMultiply || step.op == AluOp::kAdd || step.op == AluOp::kSubtract;
}

std::vector<Term> operands_of(const Steps& steps) {
  std::vector<Term> operands{{.tile = steps.data}};
  for (const Step& step : steps.steps)
    if (const auto* column = std::get_if<Tile>(&step.scalar)) operands.push_back({.tile = *column});
  return operands;
}

void emit_steps(Emitter& emitter, const Tile& dst, const Steps& steps) {
  const std::vector<Step>& list = steps.steps;
  if (steps.then) {
    AsActivation before = *as_activation({steps.data, steps.steps, std::nullopt});
    if (before.bias_is_subtracted) {  // x - b and x + (-b) are the same number
      const Tile negative = emitter.sbuf(before.bias->rows, 1, DType::kFloat32, "negative");
      emitter.tensor_scalar(AluOp::kMultiply, negative, *before.bias, -1.0);
      before.bias = negative;
    }
    if (before.bias_number) {
      before.bias = emitter.sbuf(steps.data.rows, 1, DType::kFloat32, "bias");
      emitter.memset(*before.bias, *before.bias_number);
    }
    return emitter.activation(*steps.then, dst, steps.data, before.scale, before.bias);
  }
  if (list.empty()) return emitter.tensor_copy(dst, steps.data);
  if (const auto activation = as_activation(steps); activation && !activation->bias_is_subtracted &&
                                                    !activation->bias_number && emitter.scalar_is_freer(dst))
    return emitter.activation(activation->function, dst, steps.data, activation->scale, activation->bias);
  if (list.size() == 1) return emitter.tensor_scalar(list[0].op, dst, steps.data, list[0].scalar);
  emitter.tensor_scalar(list[0].op, list[0].scalar, list[1].op, list[1].scalar, dst, steps.data);
}

void load_next_table(Emitter& emitter, const graph::Function& function, std::span<const graph::OpId> ops,
                     const graph::Op& op, const Tile& made) {
  if (!is_short_program(function)) return;
  const auto here =
      std::ranges::find_if(ops, [&](graph::OpId id) { return function.op(id).results == op.results; });
  const auto now = first_function(op);
  if (here == ops.end()) return;
  for (auto after = here + 1; after != ops.end(); ++after) {
    const auto next = first_function(function.op(*after));
    if (!next) continue;
    if (next == now || !cost::default_costs(emitter.generation()).usual.has_table(*next)) return;
    const Tile nobody_reads = emitter.sbuf(1, 1, DType::kFloat32, "table");
    emitter.activation(*next, nobody_reads, made.row_range(0, 1).column_range(0, 1));
    return;
  }
}

bool reads_sums(graph::OpKind kind) {
  switch (kind) {
    case graph::OpKind::add_:
    case graph::OpKind::subtract_:
    case graph::OpKind::multiply_:
    case graph::OpKind::divide_:
    case graph::OpKind::maximum_:
    case graph::OpKind::minimum_:
    case graph::OpKind::and_:
    case graph::OpKind::or_:
    case graph::OpKind::xor_:
    case graph::OpKind::convert_:
    case graph::OpKind::exponential_:
    case graph::OpKind::tanh_:
    case graph::OpKind::logistic_:
    case graph::OpKind::rsqrt_:
    case graph::OpKind::sqrt_:
    case graph::OpKind::chlo_erf_:
    case graph::OpKind::reduce_: return true;
    default: return false;
  }
}

bool makes_own_tile(const graph::Op& op, const Tile& tile, const Tile& like) {
  if (tile.space != isa::MemorySpace::kSbuf || tile.dtype != like.dtype || tile.rows != like.rows ||
      tile.columns != like.columns || tile.runs != 1 || tile.groups != 1 || tile.column_step != 1)
    return false;
  switch (op.kind) {
    case graph::OpKind::add_:
    case graph::OpKind::subtract_:
    case graph::OpKind::multiply_:
    case graph::OpKind::divide_:
    case graph::OpKind::maximum_:
    case graph::OpKind::minimum_:
    case graph::OpKind::select_: return true;
    default: return false;
  }
}

AluOp alu_of_step(graph::OpKind kind) {
  switch (kind) {
    case graph::OpKind::add_: return AluOp::kAdd;
    case graph::OpKind::multiply_: return AluOp::kMultiply;
    case graph::OpKind::subtract_: return AluOp::kSubtract;
    case graph::OpKind::maximum_: return AluOp::kMaximum;
    case graph::OpKind::remainder_: return AluOp::kFmod;
    case graph::OpKind::divide_: return AluOp::kDivide;
    case graph::OpKind::and_: return AluOp::kBitwiseAnd;
    case graph::OpKind::or_: return AluOp::kBitwiseOr;
    case graph::OpKind::xor_: return AluOp::kBitwiseXor;
    case graph::OpKind::shift_left_: return AluOp::kLeftShift;
    case graph::OpKind::shift_right_logical_: return AluOp::kRightShift;
    case graph::OpKind::shift_right_arithmetic_: return AluOp::kArithmeticRightShift;
    default: return AluOp::kMinimum;
  }
}

}  // namespace opentrn::compiler
