// Det: the product of the pivots of an elimination with partial pivoting.
#include "import/onnx/loop.h"
#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

using Direction = graph::ComparisonDirection;

// One column of the elimination, of matrices [..., size, size].
class Elimination {
 public:
  Elimination(Builder& builder, ValueId step, int64_t rank, int64_t size)
      : e_(builder),
        rank_(rank),
        step_(step),
        rows_(places(rank - 2, size)),
        columns_(places(rank - 1, size)) {}

  // {matrix, determinant so far [..., 1, 1]} to those after this step.
  Values run(ValueId matrix, ValueId determinant) const {
    const ValueId best = largest_below(column_of(matrix));
    const ValueId pivot_row = row_at(matrix, best), old_row = row_at(matrix, step_);
    const ValueId moved = e_.select(at(rows_, step_), pivot_row, e_.select(at(rows_, best), old_row, matrix));
    const ValueId pivot = column_of(pivot_row);
    const ValueId divisor = e_.select(e_.compare(Direction::kEq, pivot, 0), e_.like(pivot, 1), pivot);
    const ValueId below = e_.compare(Direction::kGt, rows_, step_);
    const ValueId factor = e_.select(below, e_.div(column_of(moved), divisor), e_.like(column_of(moved), 0));
    const ValueId sign = e_.select(at(best, step_), e_.like(pivot, 1), e_.like(pivot, -1));
    return {e_.sub(moved, e_.mul(factor, pivot_row)), e_.mul(determinant, e_.mul(pivot, sign))};
  }

 private:
  ValueId places(int64_t axis, int64_t size) const {
    Dims dims(static_cast<size_t>(rank_), 1);
    dims[static_cast<size_t>(axis)] = size;
    return e_.iota(ElementType::kI64, dims, axis);
  }
  ValueId at(ValueId places, ValueId place) const { return e_.compare(Direction::kEq, places, place); }
  // Where nothing is chosen there may be infinities: sums, not products.
  ValueId chosen(ValueId where, ValueId matrix, int64_t axis) const {
    return e_.sum(e_.select(where, matrix, e_.like(matrix, 0)), {axis}, true);
  }
  ValueId column_of(ValueId matrix) const { return chosen(at(columns_, step_), matrix, rank_ - 1); }
  ValueId row_at(ValueId matrix, ValueId place) const { return chosen(at(rows_, place), matrix, rank_ - 2); }
  // The row, from this step's on, with the largest magnitude in a column [..., size, 1].
  ValueId largest_below(ValueId column) const {
    const ValueId size = e_.unary(OpKind::abs_, column);
    const ValueId from_here = e_.compare(Direction::kGe, rows_, step_);
    return e_.arg_extreme(e_.select(from_here, size, e_.like(size, -1)), rank_ - 2, true, false);
  }

  Emit e_;
  int64_t rank_;
  ValueId step_, rows_, columns_;
};

}  // namespace

void import_det(Node& n) {
  const Emit& e = n.emit;
  Dims dims = n.dims(0);
  const auto rank = static_cast<int64_t>(dims.size());
  n.check(rank >= 2 && dims[dims.size() - 1] == dims[dims.size() - 2], "the input is no square matrix: {}",
          e.type(n.in(0)).to_string());
  n.check(graph::is_float(n.element(0)), "the input is {}", graph::name(n.element(0)));
  const int64_t size = dims.back();
  const ElementType wide = n.element(0) == ElementType::kF64 ? ElementType::kF64 : ElementType::kF32;
  const ValueId matrix = e.cast(n.in(0), wide);
  dims[dims.size() - 1] = dims[dims.size() - 2] = 1;
  const ValueId one = e.full(wide, dims, 1);
  const auto step = [&](Builder& builder, ValueId index, const Values& states) {
    Iteration next;
    next.states = Elimination(builder, index, rank, size).run(states[0], states[1]);
    return next;
  };
  const ValueId result = size == 0 ? one : loop(n, size, std::nullopt, {matrix, one}, step).states[1];
  dims.resize(dims.size() - 2);
  n.set(0, e.cast(e.reshape(result, dims), n.element(0)));
}

}  // namespace opentrn::import::onnx
