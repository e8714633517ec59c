// @opentrn.geqrf and @opentrn.ormqr of small matrices of fp32 (small_matrix.h), by reflections as LAPACK's
// geqr2 has them. Lengths are taken of what is divided by the largest entry: squares neither overflow nor
// vanish.
#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/small_matrix.h"
#include "compiler/lowering/takes.h"
#include "graph/solver_call.h"

namespace opentrn::compiler {

namespace {

// b[rows, columns] -= v tau (v^T b): `v` is a column, `b` the part of a matrix from the same row on.
void reflect_part(Emitter& emitter, const SmallMatrixWork& work, const SmallMatrix& v, int64_t j,
                  const Tile& tau, const SmallMatrix& b, int64_t first_column, int64_t rows,
                  int64_t columns) {
  const SmallMatrix products = work.matrix(rows, columns);
  emitter.tensor_tensor(AluOp::kMultiply, products.part(0, rows, 0, columns),
                        v.column_for(columns, j, j, rows), b.part(j, rows, first_column, columns));
  const Tile sums = work.fresh(columns), scaled = work.fresh(columns);
  emitter.reduce(AluOp::kAdd, sums, products.transposed_part(0, rows, 0, columns));
  emitter.tensor_scalar(AluOp::kMultiply, scaled, sums, tau);
  work.subtract_product(b.part(j, rows, first_column, columns), v.column_for(columns, j, j, rows),
                        scaled.patch(0, rows, 0, columns, 1), rows, columns);
}

class SmallQr {
 public:
  SmallQr(Lowering& lowering, const Op& op) : emitter_(lowering.emitter()) {
    const View view = lowering.view(op.operands[0]);
    const int batch = static_cast<int>(view.dims.size()) - 2;
    columns_ = view.dims.back().count;
    rows_ = view.dims[static_cast<size_t>(batch)].count;
    data_ = Matrix(view, batch);
    packed_ = Matrix(lowering.allocate(op.results[0]), batch);
    taus_ = Matrix(lowering.allocate(op.results[1]), batch);
  }

  void run() {
    SmallMatrixWork::each(emitter_, data_.rows(), [this](const SmallMatrixWork& work, int64_t row) {
      const Tile tile = work.own(data_, row), taus = work.fresh(std::min(rows_, columns_));
      one_ = work.fresh(1);
      zero_ = work.fresh(1);
      emitter_.memset(one_, 1.0);
      emitter_.memset(zero_, 0.0);
      for (int64_t j = 0; j < taus.columns; ++j)
        reflect(work, {tile, columns_, 1}, j, taus.column_range(j, 1));
      packed_.store(emitter_, tile, row, 0);
      taus_.store(emitter_, taus, row, 0);
    });
  }

 private:
  // Column j, and those right of it.
  void reflect(const SmallMatrixWork& work, const SmallMatrix& a, int64_t j, const Tile& tau) {
    const int64_t left = rows_ - j, right = columns_ - j - 1;
    if (left == 1) return emitter_.memset(tau, 0.0);  // nothing below
    const Tile entry = reflection(work, a, j, tau);
    const Tile corner = a.element(j, j);
    emitter_.tensor_copy(corner, one_);
    if (right > 0) reflect_part(emitter_, work, a, j, tau, a, j + 1, left, right);
    emitter_.tensor_copy(corner, entry);
  }

  // Makes tau, and the vector below the diagonal; what stays in R. All of the reflection is made of the
  // column over its largest entry: what is left of parallel columns has too few bits of its own.
  Tile reflection(const SmallMatrixWork& work, const SmallMatrix& a, int64_t j, const Tile& tau) {
    const int64_t left = rows_ - j;
    const Tile alpha = a.element(j, j), below = a.column(j, j + 1, left - 1);
    const Tile size = work.fresh(left), scaled = work.fresh(left), square = work.fresh(left),
               largest = work.fresh(1), unit = work.fresh(1);
    const Tile column = a.column(j, j, left);
    emitter_.scalar_tensor_tensor(AluOp::kMultiply, -1.0, AluOp::kMaximum, size, column, column);
    emitter_.reduce(AluOp::kMaximum, largest, size);
    emitter_.scalar_tensor_tensor(AluOp::kEqual, 0.0, AluOp::kAdd, unit, largest, largest);
    emitter_.tensor_scalar(AluOp::kDivide, scaled, column, unit);
    emitter_.tensor_tensor(AluOp::kMultiply, square, scaled, scaled);
    const Tile rest = work.fresh(1), whole = work.fresh(1), root = work.fresh(1);
    emitter_.reduce(AluOp::kAdd, rest, square.column_range(1, left - 1));
    emitter_.tensor_tensor(AluOp::kAdd, whole, square.column_range(0, 1), rest);
    emitter_.activation(ActivationFunction::kSqrt, root, whole);
    // The sign that alpha has not: nothing is cancelled.
    const Tile minus_two = work.fresh(1), beta = work.fresh(1), entry = work.fresh(1), gap = work.fresh(1),
               divisor = work.fresh(1), none = work.fresh(1, DType::kUint8);
    emitter_.tensor_scalar(AluOp::kGreaterEqual, 0.0, AluOp::kMultiply, -2.0, minus_two, alpha);
    emitter_.scalar_tensor_tensor(AluOp::kAdd, 1.0, AluOp::kMultiply, beta, minus_two, root);
    // Where all below is zero, nothing is reflected.
    emitter_.tensor_scalar(AluOp::kEqual, none, rest, 0.0);
    emitter_.tensor_tensor(AluOp::kMultiply, entry, beta, unit);
    emitter_.copy_where(entry, alpha, none);
    emitter_.copy_where(beta, one_, none);
    emitter_.tensor_tensor(AluOp::kSubtract, gap, beta, scaled.column_range(0, 1));
    emitter_.tensor_tensor(AluOp::kDivide, tau, gap, beta);
    emitter_.copy_where(tau, zero_, none);
    emitter_.tensor_scalar(AluOp::kMultiply, divisor, gap, -1.0);
    emitter_.copy_where(divisor, one_, none);
    emitter_.tensor_scalar(AluOp::kDivide, below, scaled.column_range(1, left - 1), divisor);
    return entry;
  }

  Emitter& emitter_;
  int64_t rows_ = 0, columns_ = 0;
  Matrix data_, packed_, taus_;
  Tile one_, zero_;
};

// Q B or Q^T B.
void apply_small_q(Lowering& lowering, const Op& op) {
  Emitter& emitter = lowering.emitter();
  const View a = lowering.view(op.operands[0]), b = lowering.view(op.operands[2]);
  const int batch = static_cast<int>(a.dims.size()) - 2;
  const int64_t rows = a.dims[static_cast<size_t>(batch)].count, packed_columns = a.dims.back().count,
                columns = b.dims.back().count;
  const Matrix packed(a, batch), taus(lowering.view(op.operands[1]), batch), given(b, batch),
      result(lowering.allocate(op.results[0]), batch);
  const int64_t count = taus.columns();
  SmallMatrixWork::each(emitter, packed.rows(), [&](const SmallMatrixWork& work, int64_t row) {
    const Tile tile = work.own(given, row), one = work.fresh(1);
    const SmallMatrix v(work.own(packed, row), packed_columns, 1), x(tile, columns, 1);
    const Tile tau = taus.fetch(emitter, row, tile.rows, 0, count, "small_qr");
    emitter.memset(one, 1.0);
    emitter.tensor_copy(v.diagonal(count), one.repeated(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t j = graph::solver_says(op, "adjoint") ? i : count - 1 - i;
      reflect_part(emitter, work, v, j, tau.column_range(j, 1), x, 0, rows - j, columns);
    }
    result.store(emitter, tile, row, 0);
  });
}

bool is_small_in_row(const graph::Type& type) {
  return type.element() == ElementType::kF32 && type.is_static() && type.element_count() > 0 &&
         type.dim(type.rank() - 2) * type.dim(type.rank() - 1) <= kSmallMatrixElements;
}

}  // namespace

bool has_small_qr(const Function& function, const Op& op) {
  const auto solver = graph::solver_of(op);
  if (solver == graph::Solver::kGeqrf) return is_small_in_row(function.type(op.operands[0]));
  return solver == graph::Solver::kOrmqr && is_small_in_row(function.type(op.operands[0])) &&
         is_small_in_row(function.type(op.operands[2])) && function.type(op.operands[1]).element_count() > 0;
}

bool lower_small_qr(Lowering& lowering, const Op& op) {
  if (!has_small_qr(lowering.function(), op)) return false;
  if (graph::solver_of(op) == graph::Solver::kGeqrf)
    SmallQr(lowering, op).run();
  else
    apply_small_q(lowering, op);
  return true;
}

}  // namespace opentrn::compiler
