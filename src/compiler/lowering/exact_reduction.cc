#include "compiler/lowering/exact_reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"

namespace opentrn::compiler {

namespace {

// The smallest and the largest value of a type.
std::pair<double, double> range_of(graph::ElementType element) {
  if (graph::is_bool(element)) return {0.0, 1.0};
  if (graph::is_float(element))
    return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  const double size = std::ldexp(1.0, graph::bit_width(element));
  return graph::is_unsigned_integer(element) ? std::pair(0.0, size - 1) : std::pair(-size / 2, size / 2 - 1);
}

}  // namespace

AluOp alu_of(OpKind combiner) {
  switch (combiner) {
    case OpKind::add_: return AluOp::kAdd;
    case OpKind::multiply_: return AluOp::kMultiply;
    case OpKind::maximum_:
    case OpKind::or_: return AluOp::kMaximum;
    default: return AluOp::kMinimum;
  }
}

bool is_neutral(OpKind combiner, graph::ElementType element, double number) {
  switch (combiner) {
    case OpKind::add_: return number == 0.0;
    case OpKind::multiply_: return number == 1.0;
    case OpKind::maximum_:
    case OpKind::or_: return number == range_of(element).first;
    default: return number == range_of(element).second;
  }
}

namespace {

constexpr int kExactBits = 24;  // of fp32
// How many ops back a bound is looked for.
constexpr int kBoundDepth = 6;

int bits_of(const graph::Function& function, graph::ValueId value, int depth) {
  const graph::ElementType element = function.type(value).element();
  const int width = graph::is_bool(element) ? 1 : static_cast<int>(graph::bit_width(element));
  if (const auto number = splat_of(function, value))
    return std::min(width, std::ilogb(std::abs(*number) + 1) + 1);
  const graph::Op* op = maker(function, value);
  if (op == nullptr || depth == 0) return width;
  const auto operand = [&](size_t i) {
    const graph::ElementType from = function.type(op->operands[i]).element();
    return graph::is_bool(from) || graph::is_integer(from)
               ? std::min(width, bits_of(function, op->operands[i], depth - 1))
               : width;
  };
  if (is_view_op(op->kind) || op->kind == OpKind::convert_) return operand(0);
  return op->kind == OpKind::select_ ? std::max(operand(1), operand(2)) : width;
}

// Of a reduction of so many numbers in fp32.
bool is_exact_in_fp32(OpKind combiner, bool is_bool, int bits, int64_t count) {
  if (is_bool || combiner == OpKind::maximum_ || combiner == OpKind::minimum_) return bits <= kExactBits;
  return combiner == OpKind::add_ && bits + std::ilogb(static_cast<double>(count)) + 1 <= kExactBits;
}

}  // namespace

int magnitude_bits(const graph::Function& function, graph::ValueId value) {
  return bits_of(function, value, kBoundDepth);
}

Tile reduce_exactly(Emitter& emitter, OpKind combiner, graph::ElementType element, Tile data, double initial,
                    int bits, int64_t run) {
  const bool is_bool = graph::is_bool(element);
  const bool all = combiner == OpKind::and_ || combiner == OpKind::minimum_ || combiner == OpKind::multiply_;
  const AluOp alu = is_bool                    ? (all ? AluOp::kBitwiseAnd : AluOp::kBitwiseOr)
                    : combiner == OpKind::and_ ? AluOp::kBitwiseAnd
                    : combiner == OpKind::or_  ? AluOp::kBitwiseOr
                                               : alu_of(combiner);
  const DType dtype = is_bool ? DType::kUint8 : wide_integer(element);
  const auto fresh = [&](int64_t columns) { return emitter.sbuf(data.rows, columns, dtype, "reduce"); };
  if (const int64_t count = data.columns / run;
      count > 1 && is_exact_in_fp32(combiner, is_bool, bits, count)) {
    const Tile reduced = fresh(run);
    const AluOp extreme = all ? AluOp::kMinimum : AluOp::kMaximum;
    emitter.reduce(is_bool ? extreme : alu, reduced, run == 1 ? data : data.patch(0, run, 1, count, run));
    data = reduced;
  }
  if (data.dtype != dtype) {
    const Tile wide = fresh(data.columns);
    emitter.tensor_copy(wide, data);
    data = wide;
  }
  while (data.columns > run) {
    const int64_t half = data.columns / run / 2 * run, odd = data.columns - 2 * half;
    const Tile folded = fresh(half);
    emitter.tensor_tensor(alu, folded, data.column_range(0, half), data.column_range(half, half));
    if (odd == 0) {
      data = folded;
      continue;
    }
    const Tile last = fresh(run), rest = fresh(half);
    emitter.tensor_tensor(alu, last, folded.column_range(0, run), data.column_range(2 * half, run));
    if (half > run)
      emitter.tensor_copy(rest.column_range(run, half - run), folded.column_range(run, half - run));
    emitter.tensor_copy(rest.column_range(0, run), last);
    data = rest;
  }
  if (!is_neutral(combiner, element, initial)) {
    const Tile start = fresh(run), sum = fresh(run);
    emitter.memset(start, initial);
    emitter.tensor_tensor(alu, sum, data, start);
    data = sum;
  }
  return is_bool ? data : narrow_integer(emitter, data, element);
}

}  // namespace opentrn::compiler
