// cholesky and triangular_solve of small matrices of fp32 (small_matrix.h): a row or column at a time, each
// taken from what is left once it is known.
#include <algorithm>
#include <limits>

#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/small_matrix.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

class SmallCholesky {
 public:
  SmallCholesky(Lowering& lowering, const Op& op)
      : lowering_(lowering), emitter_(lowering.emitter()), lower_(op.boolean_or(Attr::lower, false)) {
    const View view = lowering.view(op.operands[0]);
    const int batch = static_cast<int>(view.dims.size()) - 2;
    size_ = view.dims.back().count;
    data_ = Matrix(view, batch);
    result_ = Matrix(lowering.allocate(op.results[0]), batch);
  }

  void run() {
    SmallMatrixWork::each(emitter_, data_.rows(), [this](const auto& work, int64_t row) { run(work, row); });
  }

 private:
  // Of the lower triangle; an upper one is that of the transpose.
  void run(const SmallMatrixWork& work, int64_t first) {
    const Tile tile = work.own(data_, first);
    SmallMatrix a(tile, size_, 1);
    const Tile factor = work.fresh(size_ * size_), nan = work.fresh(1);
    SmallMatrix out(factor, size_, 1);
    if (!lower_) {
      a = a.transposed();
      out = out.transposed();
    }
    emitter_.memset(nan, std::numeric_limits<double>::quiet_NaN());
    for (int64_t i = 0; i < size_; ++i) eliminate(work, a, i, nan);
    // The other triangle is zero. What is no factor is NaN as a whole: the last pivot is then.
    const Tile places = work.counted(lowering_.counted(size_), size_),
               is_below = work.fresh(size_ * size_, DType::kUint8).patch(0, size_, size_, size_, 1),
               nothing = work.fresh(1);
    emitter_.tensor_tensor(AluOp::kLessEqual, is_below, places.patch(0, size_, 0, size_, 1),
                           places.patch(0, size_, 1, size_, 0));
    emitter_.memset(factor, 0.0);
    emitter_.copy_where(out.part(0, size_, 0, size_), a.part(0, size_, 0, size_), is_below);
    const Tile last = a.element(size_ - 1, size_ - 1), whole = work.fresh(size_ * size_);
    emitter_.tensor_tensor(AluOp::kSubtract, nothing, last, last);
    emitter_.tensor_scalar(AluOp::kAdd, whole, factor, nothing);
    result_.store(emitter_, whole, first, 0);
  }

  void eliminate(const SmallMatrixWork& work, const SmallMatrix& a, int64_t i, const Tile& nan) {
    const int64_t below = size_ - i - 1;
    const Tile pivot = a.element(i, i), root = work.fresh(1), is_positive = work.fresh(1, DType::kUint8);
    emitter_.tensor_scalar(AluOp::kGreater, is_positive, pivot, 0.0);
    emitter_.activation(ActivationFunction::kSqrt, root, pivot);
    emitter_.tensor_copy(pivot, nan);
    emitter_.copy_where(pivot, root, is_positive);
    if (below == 0) return;
    const Tile under = a.column(i, i + 1, below);
    emitter_.tensor_scalar(AluOp::kDivide, under, under, pivot);
    work.subtract_product(a.part(i + 1, below, i + 1, below), a.column_for(below, i, i + 1, below),
                          a.transposed().row_for(below, i, i + 1, below), below, below);
  }

  Lowering& lowering_;
  Emitter& emitter_;
  bool lower_;
  int64_t size_ = 0;
  Matrix data_, result_;
};

class SmallSolve {
 public:
  SmallSolve(Lowering& lowering, const Op& op) : emitter_(lowering.emitter()), op_(op) {
    const View a = lowering.view(op.operands[0]), b = lowering.view(op.operands[1]);
    const int batch = static_cast<int>(a.dims.size()) - 2;
    size_ = a.dims.back().count;
    b_columns_ = b.dims.back().count;
    wanted_ = b_columns_ * b.dims[static_cast<size_t>(batch)].count / size_;
    triangle_ = Matrix(a, batch);
    data_ = Matrix(b, batch);
    result_ = Matrix(lowering.allocate(op.results[0]), batch);
  }

  void run() {
    SmallMatrixWork::each(emitter_, data_.rows(), [this](const auto& work, int64_t row) { run(work, row); });
  }

 private:
  // Everything is L X = B: from the right by transposing, from below by turning round.
  void run(const SmallMatrixWork& work, int64_t first) {
    const Tile x = work.own(data_, first);
    SmallMatrix l(triangle_.fetch(emitter_, first, x.rows, 0, size_ * size_, "small_solve"), size_, 1);
    SmallMatrix b(x, b_columns_, 1);
    const auto kind = op_.enumeration(Attr::transpose_a, graph::Transpose::kNone);
    const bool transposes = kind == graph::Transpose::kTranspose || kind == graph::Transpose::kAdjoint;
    const bool left = op_.boolean(Attr::left_side), flips = transposes != !left;
    if (flips) l = l.transposed();
    if (!left) b = b.transposed();
    if (op_.boolean(Attr::lower) == flips) {
      l = l.rows_reversed(size_).columns_reversed(size_);
      b = b.rows_reversed(size_);
    }
    for (int64_t i = 0; i < size_; ++i) {
      const Tile row = b.row(i, 0, wanted_);
      if (!op_.boolean(Attr::unit_diagonal))
        emitter_.tensor_scalar(AluOp::kDivide, row, row, l.element(i, i));
      if (const int64_t below = size_ - i - 1; below > 0)
        work.subtract_product(b.part(i + 1, below, 0, wanted_), l.column_for(wanted_, i, i + 1, below),
                              b.row_for(below, i, 0, wanted_), below, wanted_);
    }
    result_.store(emitter_, x, first, 0);
  }

  Emitter& emitter_;
  const Op& op_;
  int64_t size_ = 0, wanted_ = 0, b_columns_ = 0;  // rows of the triangle, right sides, columns as they lie
  Matrix triangle_, data_, result_;
};

bool is_small(const graph::Type& type) {
  if (!type.is_tensor() || !type.is_static() || type.quantization() || type.element() != ElementType::kF32)
    return false;
  return type.element_count() > 0 &&
         type.dim(type.rank() - 2) * type.dim(type.rank() - 1) <= kSmallMatrixElements;
}

}  // namespace

bool has_small_factors(const Function& function, const Op& op) {
  if (op.kind != OpKind::cholesky_ && op.kind != OpKind::triangular_solve_) return false;
  const graph::Type& a = function.type(op.operands[0]);
  if (!is_small(a)) return false;
  return op.kind == OpKind::cholesky_ || is_small(function.type(op.operands[1]));
}

bool lower_small_factors(Lowering& lowering, const Op& op) {
  if (!has_small_factors(lowering.function(), op)) return false;
  if (op.kind == OpKind::cholesky_)
    SmallCholesky(lowering, op).run();
  else
    SmallSolve(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
