// @opentrn.getrf of small matrices of fp32 (small_matrix.h), column by column as LAPACK's getrf2 has its last
// step: the pivot is the largest entry of the column, of equal ones the first, and NaN before all.
//
// A row is chosen by a mask of its bits, not by a product with ones and zeros: other rows may hold
// infinities. Beside the matrix stands a column with the number of each row, which goes along and ends as the
// permutation.
#include <algorithm>
#include <limits>

#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/small_matrix.h"
#include "compiler/lowering/takes.h"
#include "graph/solver_call.h"

namespace opentrn::compiler {

namespace {

class SmallLu {
 public:
  SmallLu(Lowering& lowering, const Op& op)
      : lowering_(lowering), emitter_(lowering.emitter()), exchanges_(!graph::solver_says(op, "no_pivot")) {
    const View view = lowering.view(op.operands[0]);
    const size_t batch = view.dims.size() - 2;
    rows_ = view.dims[batch].count;
    columns_ = view.dims[batch + 1].count;
    count_ = std::min(rows_, columns_);
    data_ = Matrix(view, static_cast<int>(batch));
    for (const graph::ValueId result : op.results)
      results_.emplace_back(lowering.allocate(result), static_cast<int>(batch));
  }

  void run() {
    SmallMatrixWork::each(emitter_, data_.rows(), [this](const auto& work, int64_t row) { run(work, row); });
  }

 private:
  void run(const SmallMatrixWork& work, int64_t first) {
    const Tile places = work.counted(lowering_.counted(rows_), rows_);
    // Rows from below, beginning with 1: the first of several is the largest.
    const Tile down = work.fresh(rows_), infinity = work.fresh(1), chosen = work.fresh(count_);
    emitter_.tensor_scalar(AluOp::kMultiply, -1.0, AluOp::kAdd, static_cast<double>(rows_), down, places);
    emitter_.memset(infinity, std::numeric_limits<double>::infinity());
    const SmallMatrix a = work.matrix(rows_, columns_ + 1);
    const Tile given = data_.fetch(emitter_, first, places.rows, 0, rows_ * columns_, "small_lu");
    emitter_.tensor_copy(a.part(0, rows_, 0, columns_), given.patch(0, rows_, columns_, columns_, 1));
    emitter_.tensor_copy(a.column(columns_, 0, rows_), places);
    for (int64_t i = 0; i < count_; ++i) {
      if (exchanges_) exchange(work, a, i, down, infinity, chosen.column_range(i, 1));
      eliminate(work, a, i);
    }
    finish(work, a, first, exchanges_ ? chosen : down.column_range(0, count_), down);
  }

  // Brings the row of the pivot to place i; `chosen`: its place, as `down` has it.
  void exchange(const SmallMatrixWork& work, const SmallMatrix& a, int64_t i, const Tile& down,
                const Tile& infinity, const Tile& chosen) {
    const int64_t left = rows_ - i, width = columns_ + 1;
    if (left == 1) return emitter_.memset(chosen, 1.0);
    const Tile column = a.column(i, i, left), size = work.fresh(left),
               is_nan = work.fresh(left, DType::kUint8);
    emitter_.scalar_tensor_tensor(AluOp::kMultiply, -1.0, AluOp::kMaximum, size, column, column);
    emitter_.tensor_tensor(AluOp::kNotEqual, is_nan, column, column);
    emitter_.copy_where(size, infinity.repeated(left), is_nan);
    const Tile best = work.fresh(1), place = work.fresh(left);
    emitter_.reduce(AluOp::kMaximum, best, size);
    emitter_.scalar_tensor_tensor(AluOp::kEqual, best, AluOp::kMultiply, place, size,
                                  down.column_range(i, left));
    emitter_.reduce(AluOp::kMaximum, chosen, place);
    const Tile is_it = work.fresh(left, DType::kUint8), one = work.fresh(left, DType::kInt32),
               mask = work.fresh(left, DType::kInt32);
    emitter_.tensor_scalar(AluOp::kEqual, is_it, place, chosen);
    emitter_.tensor_scalar(AluOp::kEqual, one, place, chosen);
    emitter_.tensor_scalar(AluOp::kLeftShift, 31.0, AluOp::kArithmeticRightShift, 31.0, mask, one);
    const SmallMatrix bits = a.as(DType::kInt32), only = work.matrix(left, width, DType::kInt32);
    emitter_.tensor_tensor(AluOp::kBitwiseAnd, only.part(0, left, 0, width), bits.part(i, left, 0, width),
                           mask.patch(0, left, 1, width, 0));
    const Tile pivot = work.fresh(width, DType::kInt32), before = work.fresh(width);
    emitter_.reduce(AluOp::kBitwiseOr, pivot, only.transposed_part(0, left, 0, width));
    emitter_.tensor_copy(before, a.row(i, 0, width));
    emitter_.copy_where(a.part(i, left, 0, width), before.patch(0, left, 0, width, 1),
                        is_it.patch(0, left, 1, width, 0));
    emitter_.tensor_copy(a.row(i, 0, width), pivot.as(DType::kFloat32));
  }

  // A pivot of zero divides nothing.
  void eliminate(const SmallMatrixWork& work, const SmallMatrix& a, int64_t i) {
    const int64_t below = rows_ - i - 1, right = columns_ - i - 1;
    if (below == 0) return;
    const Tile pivot = a.element(i, i), divisor = work.fresh(1), factors = a.column(i, i + 1, below);
    emitter_.scalar_tensor_tensor(AluOp::kEqual, 0.0, AluOp::kAdd, divisor, pivot, pivot);
    emitter_.tensor_scalar(AluOp::kDivide, factors, factors, divisor);
    if (right > 0)
      work.subtract_product(a.part(i + 1, below, i + 1, right), a.column_for(right, i, i + 1, below),
                            a.row_for(below, i, i + 1, right), below, right);
  }

  void finish(const SmallMatrixWork& work, const SmallMatrix& a, int64_t first, const Tile& chosen,
              const Tile& down) {
    const Tile packed = work.fresh(rows_ * columns_), pivots = work.fresh(count_, DType::kInt32);
    emitter_.tensor_copy(packed.patch(0, rows_, columns_, columns_, 1), a.part(0, rows_, 0, columns_));
    results_[0].store(emitter_, packed, first, 0);
    emitter_.tensor_scalar(AluOp::kMultiply, -1.0, AluOp::kAdd, static_cast<double>(rows_ + 1), pivots,
                           chosen);
    results_[1].store(emitter_, pivots, first, 0);
    // The first zero on the diagonal.
    const Tile is_zero = work.fresh(count_), place = work.fresh(1), any = work.fresh(1),
               info = work.fresh(1, DType::kInt32);
    emitter_.scalar_tensor_tensor(AluOp::kEqual, 0.0, AluOp::kMultiply, is_zero, a.diagonal(count_),
                                  down.column_range(0, count_));
    emitter_.reduce(AluOp::kMaximum, place, is_zero);
    emitter_.tensor_scalar(AluOp::kGreater, 0.0, AluOp::kMultiply, static_cast<double>(rows_ + 1), any,
                           place);
    emitter_.tensor_tensor(AluOp::kSubtract, info, any, place);
    results_[2].store(emitter_, info, first, 0);
    if (results_.size() == 3) return;
    const Tile order = work.fresh(rows_, DType::kInt32);
    emitter_.tensor_copy(order, a.column(columns_, 0, rows_));
    results_[3].store(emitter_, order, first, 0);
  }

  Lowering& lowering_;
  Emitter& emitter_;
  bool exchanges_;
  int64_t rows_ = 0, columns_ = 0, count_ = 0;
  Matrix data_;
  std::vector<Matrix> results_;
};

}  // namespace

bool has_small_lu(const Function& function, const Op& op) {
  if (graph::solver_of(op) != graph::Solver::kGetrf) return false;
  const graph::Type& type = function.type(op.operands[0]);
  if (type.element() != ElementType::kF32 || !type.is_static()) return false;
  const int64_t rows = type.dim(type.rank() - 2), columns = type.dim(type.rank() - 1);
  return type.element_count() > 0 && rows * (columns + 1) <= kSmallMatrixElements;
}

bool lower_small_lu(Lowering& lowering, const Op& op) {
  if (!has_small_lu(lowering.function(), op)) return false;
  SmallLu(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
