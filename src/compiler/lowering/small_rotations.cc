// @opentrn.rotations of small matrices (analysis/rotations_call.h): the state and the vectors, which columns
// are turned of alike, are one matrix of a partition, the vectors below. All pairs of a round are turned at
// once.
#include <algorithm>

#include "compiler/analysis/rotations_call.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/small_matrix.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

using graph::Function;
using graph::Op;

namespace {

struct CosineAndSine {
  Tile cosine, sine;  // by pair
};

class SmallRotations {
 public:
  SmallRotations(Lowering& lowering, const Op& op)
      : emitter_(lowering.emitter()), call_(*RotationsCall::of(op)) {
    const View state = lowering.view(op.operands[0]);
    const int batch = static_cast<int>(state.dims.size()) - 2;
    rows_ = state.dims[static_cast<size_t>(batch)].count;
    size_ = state.dims.back().count;
    pairs_ = size_ / 2;
    for (int i = 0; i < 2; ++i) {
      given_.emplace_back(lowering.view(op.operands[static_cast<size_t>(i)]), batch);
      results_.emplace_back(lowering.allocate(op.results[static_cast<size_t>(i)]), batch);
    }
  }

  void run() {
    SmallMatrixWork::each(emitter_, given_[0].rows(), [this](const SmallMatrixWork& work, int64_t row) {
      Tile both = work.fresh((rows_ + size_) * size_);
      one_ = work.fresh(1);
      emitter_.memset(one_, 1.0);
      given_[0].load(emitter_, both.column_range(0, rows_ * size_), row, 0);
      given_[1].load(emitter_, both.column_range(rows_ * size_, size_ * size_), row, 0);
      for (int64_t round = 0; round < call_.rounds; ++round) both = turned(work, both);
      results_[0].store(emitter_, both.column_range(0, rows_ * size_), row, 0);
      results_[1].store(emitter_, both.column_range(rows_ * size_, size_ * size_), row, 0);
    });
  }

 private:
  Tile turned(const SmallMatrixWork& work, const Tile& before) {
    const Tile after = work.fresh(before.columns);
    const CosineAndSine angles = angles_of(work, before);
    turn(work, {before, size_, 1}, {after, size_, 1}, rows_ + size_, angles);
    if (call_.both) {
      const SmallMatrix rows(after, 1, size_);  // of the state, as columns
      turn(work, rows, rows, rows_, angles);
    }
    return after;
  }

  // Every second entry of the first pairs' places.
  Tile every_second(const Tile& tile, int64_t begin, int64_t step) const {
    return tile.patch(begin, 1, 0, pairs_, step);
  }

  // [rows, pairs], from one column of each pair on.
  static Tile columns_of(const SmallMatrix& a, int64_t rows, int64_t first, int64_t count) {
    return a.every_second_column(0, rows, first, count);
  }

  // What makes the entry between the two of a pair zero, or their columns orthogonal.
  CosineAndSine angles_of(const SmallMatrixWork& work, const Tile& state) {
    if (call_.both) {
      const int64_t step = 2 * (size_ + 1);
      return angles(work, every_second(state, 0, step), every_second(state, size_ + 1, step),
                    every_second(state, size_, step));
    }
    const SmallMatrix a(state, size_, 1), squares = work.matrix(rows_, size_),
                                          products = work.matrix(rows_, pairs_);
    const Tile lengths = work.fresh(size_), off = work.fresh(pairs_);
    const Tile all = a.part(0, rows_, 0, size_);
    emitter_.tensor_tensor(AluOp::kMultiply, squares.part(0, rows_, 0, size_), all, all);
    emitter_.reduce(AluOp::kAdd, lengths, squares.turned_part(0, rows_, 0, size_));
    emitter_.tensor_tensor(AluOp::kMultiply, products.part(0, rows_, 0, pairs_),
                           columns_of(a, rows_, 0, pairs_), columns_of(a, rows_, 1, pairs_));
    emitter_.reduce(AluOp::kAdd, off, products.turned_part(0, rows_, 0, pairs_));
    return angles(work, every_second(lengths, 0, 2), every_second(lengths, 1, 2), off);
  }

  // tau = (q - p) / (2 off), the tangent the smaller root of t^2 + 2 tau t = 1; none where `off` is zero.
  CosineAndSine angles(const SmallMatrixWork& work, const Tile& p, const Tile& q, const Tile& off) {
    const auto fresh = [&] { return work.fresh(pairs_); };
    const Tile gap = fresh(), safe = fresh(), tau = fresh(), square = fresh(), root = fresh(), sum = fresh(),
               magnitude = fresh(), sign = fresh(), some = fresh(), tangent = fresh(), secant = fresh(),
               cosine = fresh(), sine = fresh();
    emitter_.tensor_tensor(AluOp::kSubtract, gap, q, p);
    emitter_.scalar_tensor_tensor(AluOp::kEqual, 0.0, AluOp::kAdd, safe, off, off);
    emitter_.scalar_tensor_tensor(AluOp::kMultiply, 0.5, AluOp::kDivide, tau, gap, safe);
    emitter_.tensor_tensor(AluOp::kMultiply, square, tau, tau);
    emitter_.activation(ActivationFunction::kSqrt, root, square, 1.0, one_);
    emitter_.scalar_tensor_tensor(AluOp::kMultiply, -1.0, AluOp::kMaximum, magnitude, tau, tau);
    emitter_.tensor_tensor(AluOp::kAdd, sum, magnitude, root);
    emitter_.tensor_scalar(AluOp::kGreaterEqual, 0.0, AluOp::kMultiply, 2.0, sign, tau);
    emitter_.scalar_tensor_tensor(AluOp::kSubtract, 1.0, AluOp::kDivide, some, sign, sum);
    emitter_.scalar_tensor_tensor(AluOp::kNotEqual, 0.0, AluOp::kMultiply, tangent, off, some);
    const Tile tangent_square = fresh();
    emitter_.tensor_tensor(AluOp::kMultiply, tangent_square, tangent, tangent);
    emitter_.activation(ActivationFunction::kSqrt, secant, tangent_square, 1.0, one_);
    emitter_.tensor_scalar(AluOp::kDivide, cosine, secant, 1.0, /*reverse=*/true);
    emitter_.tensor_tensor(AluOp::kMultiply, sine, tangent, cosine);
    return {cosine, sine};
  }

  // The columns e and o of each pair become c e - s o and s e + c o, in the order of the next round: the
  // first column stays, the others go round, up along the first ones of the pairs and back along the second
  // ones. `to` may be `from`.
  void turn(const SmallMatrixWork& work, const SmallMatrix& from, const SmallMatrix& to, int64_t rows,
            const CosineAndSine& angles) {
    const Tile first = columns_of(from, rows, 0, pairs_), second = columns_of(from, rows, 1, pairs_);
    const auto scaled = [&](const Tile& columns, const Tile& factors) {
      const SmallMatrix made = work.matrix(rows, pairs_);
      emitter_.tensor_tensor(AluOp::kMultiply, made.part(0, rows, 0, pairs_), columns,
                             factors.patch(0, rows, 0, pairs_, 1));
      return made;
    };
    const SmallMatrix first_cosine = scaled(first, angles.cosine), second_sine = scaled(second, angles.sine),
                      first_sine = scaled(first, angles.sine), second_cosine = scaled(second, angles.cosine);
    const auto put = [&](AluOp op, const SmallMatrix& a, const SmallMatrix& b, int64_t pair, int64_t column,
                         int64_t count) {
      if (count > 0)
        emitter_.tensor_tensor(op, columns_of(to, rows, column, count), a.part(0, rows, pair, count),
                               b.part(0, rows, pair, count));
    };
    const auto put_first = [&](int64_t pair, int64_t column, int64_t count) {
      put(AluOp::kSubtract, first_cosine, second_sine, pair, column, count);
    };
    const auto put_second = [&](int64_t pair, int64_t column, int64_t count) {
      put(AluOp::kAdd, first_sine, second_cosine, pair, column, count);
    };
    put_first(0, 0, 1);
    if (pairs_ == 1) return put_second(0, 1, 1);
    put_second(0, 2, 1);
    put_first(1, 4, pairs_ - 2);
    put_second(1, 1, pairs_ - 1);
    put_first(pairs_ - 1, 2 * pairs_ - 1, 1);
  }

  Emitter& emitter_;
  RotationsCall call_;
  int64_t rows_ = 0, size_ = 0, pairs_ = 0;  // of the state, columns
  std::vector<Matrix> given_, results_;
  Tile one_;
};

}  // namespace

bool has_small_rotations(const Function&, const Op& op) { return RotationsCall::of(op).has_value(); }

bool lower_small_rotations(Lowering& lowering, const Op& op) {
  if (!RotationsCall::of(op)) return false;
  SmallRotations(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
