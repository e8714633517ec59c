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

// A triangular system, as it lies: everything is L X = B, from the right by transposing.
struct System {
  System(const Lowering& lowering, const Op& op)
      : left(op.boolean(Attr::left_side)), has_ones(op.boolean(Attr::unit_diagonal)) {
    const graph::Type &a = lowering.function().type(op.operands[0]),
                      &b = lowering.function().type(op.operands[1]);
    batch = static_cast<int>(a.rank()) - 2;
    size = a.dim(a.rank() - 1);
    b_columns = b.dim(b.rank() - 1);
    sides = b.element_count() == 0 ? 0 : b_columns * b.dim(b.rank() - 2) / size;
    matrices = a.element_count() / (size * size);
    const auto kind = op.enumeration(Attr::transpose_a, graph::Transpose::kNone);
    transposes = (kind == graph::Transpose::kTranspose || kind == graph::Transpose::kAdjoint) == left;
    backwards = op.boolean(Attr::lower) == transposes;
  }

  // The triangle of a tile that holds it, to be solved downwards.
  SmallMatrix triangle(const Tile& tile) const {
    SmallMatrix l(tile, size, 1);
    if (transposes) l = l.transposed();
    return backwards ? l.rows_reversed(size).columns_reversed(size) : l;
  }

  bool left, has_ones, transposes, backwards;
  int batch;
  int64_t size, sides, b_columns, matrices;  // rows of the triangle, right sides, columns as they lie
};

// One right side in each partition beside a copy of the triangle: a step is an instruction on what is left of
// a column. False: a system in each partition, whose step is instructions on what is left of all its columns.
bool lies_by_columns(int64_t matrices, int64_t sides) {
  const auto blocks_of = [](int64_t rows) { return (rows + kPartitions - 1) / kPartitions; };
  return blocks_of(matrices * sides) < blocks_of(matrices) * sides;
}

class SolveByColumns {
 public:
  SolveByColumns(Lowering& lowering, const Op& op) : emitter_(lowering.emitter()), system_(lowering, op) {
    const View a = lowering.view(op.operands[0]);
    // A column of B goes along one row.
    const auto by_columns = [&](const View& view) {
      const size_t batch = static_cast<size_t>(system_.batch);
      std::vector<isa::Dim> sides(view.dims.begin(), view.dims.begin() + system_.batch);
      sides.push_back(view.dims[batch + (system_.left ? 1 : 0)]);
      return Matrix(view, sides, {view.dims[batch + (system_.left ? 0 : 1)]});
    };
    std::vector<isa::Dim> again(a.dims.begin(), a.dims.begin() + system_.batch);
    again.push_back({0, system_.sides});
    triangle_ = Matrix(a, again, {a.dims.end() - 2, a.dims.end()});
    data_ = by_columns(lowering.view(op.operands[1]));
    result_ = by_columns(lowering.allocate(op.results[0]));
  }

  void run() {
    SmallMatrixWork::each(emitter_, data_.rows(), [this](const auto& work, int64_t row) { run(work, row); });
  }

 private:
  void run(const SmallMatrixWork& work, int64_t first) {
    const Tile x = work.own(data_, first);
    const int64_t size = system_.size;
    // Of one matrix the same for all blocks.
    if (system_.matrices > 1 || first == 0)
      tile_ = triangle_.fetch(emitter_, first, x.rows, 0, size * size, "small_solve");
    const SmallMatrix l = system_.triangle(tile_.row_range(0, x.rows));
    const SmallMatrix b = system_.backwards ? SmallMatrix(x, 1, 1).rows_reversed(size) : SmallMatrix(x, 1, 1);
    for (int64_t i = 0; i < size; ++i) {
      const Tile one = b.element(i, 0);
      if (!system_.has_ones) emitter_.tensor_tensor(AluOp::kDivide, one, one, l.element(i, i));
      if (const int64_t below = size - i - 1; below > 0) {
        const Tile rest = b.column(0, i + 1, below);
        emitter_.scalar_tensor_tensor(AluOp::kMultiply, one, AluOp::kSubtract, rest,
                                      l.column(i, i + 1, below), rest, /*reverse1=*/true);
      }
    }
    result_.store(emitter_, x, first, 0);
  }

  Emitter& emitter_;
  System system_;
  Matrix triangle_, data_, result_;
  Tile tile_;
};

class SmallSolve {
 public:
  SmallSolve(Lowering& lowering, const Op& op) : emitter_(lowering.emitter()), system_(lowering, op) {
    triangle_ = Matrix(lowering.view(op.operands[0]), system_.batch);
    data_ = Matrix(lowering.view(op.operands[1]), system_.batch);
    result_ = Matrix(lowering.allocate(op.results[0]), system_.batch);
  }

  void run() {
    SmallMatrixWork::each(emitter_, data_.rows(), [this](const auto& work, int64_t row) { run(work, row); });
  }

 private:
  void run(const SmallMatrixWork& work, int64_t first) {
    const Tile x = work.own(data_, first);
    const int64_t size = system_.size, sides = system_.sides;
    const SmallMatrix l =
        system_.triangle(triangle_.fetch(emitter_, first, x.rows, 0, size * size, "small_solve"));
    SmallMatrix b(x, system_.b_columns, 1);
    if (!system_.left) b = b.transposed();
    if (system_.backwards) b = b.rows_reversed(size);
    for (int64_t i = 0; i < size; ++i) {
      const Tile row = b.row(i, 0, sides);
      if (!system_.has_ones) emitter_.tensor_scalar(AluOp::kDivide, row, row, l.element(i, i));
      if (const int64_t below = size - i - 1; below > 0)
        work.subtract_product(b.part(i + 1, below, 0, sides), l.column_for(sides, i, i + 1, below),
                              b.row_for(below, i, 0, sides), below, sides);
    }
    result_.store(emitter_, x, first, 0);
  }

  Emitter& emitter_;
  System system_;
  Matrix triangle_, data_, result_;
};

bool is_f32(const graph::Type& type) {
  return type.is_tensor() && type.is_static() && !type.quantization() &&
         type.element() == ElementType::kF32 && type.element_count() > 0;
}

bool is_small(const graph::Type& type) {
  return is_f32(type) && type.dim(type.rank() - 2) * type.dim(type.rank() - 1) <= kSmallMatrixElements;
}

bool lies_by_columns(const Function& function, const Op& op) {
  const graph::Type &a = function.type(op.operands[0]), &b = function.type(op.operands[1]);
  const int64_t size = a.dim(a.rank() - 1), matrices = a.element_count() / (size * size);
  return lies_by_columns(matrices, b.element_count() / (size * matrices));
}

}  // namespace

bool has_small_factors(const Function& function, const Op& op) {
  if (op.kind != OpKind::cholesky_ && op.kind != OpKind::triangular_solve_) return false;
  if (!is_small(function.type(op.operands[0]))) return false;
  if (op.kind == OpKind::cholesky_) return true;
  const graph::Type& b = function.type(op.operands[1]);
  return is_small(b) || (is_f32(b) && lies_by_columns(function, op));
}

bool lower_small_factors(Lowering& lowering, const Op& op) {
  if (!has_small_factors(lowering.function(), op)) return false;
  if (op.kind == OpKind::cholesky_)
    SmallCholesky(lowering, op).run();
  else if (lies_by_columns(lowering.function(), op))
    SolveByColumns(lowering, op).run();
  else
    SmallSolve(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
