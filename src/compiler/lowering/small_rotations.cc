// @opentrn.rotations of small matrices (analysis/rotations_call.h): the state and the vectors, which columns
// are turned of alike, are one matrix of a partition, the vectors below. All pairs of a round are turned at
// once.
#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/rotations_call.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/rotation_angles.h"
#include "compiler/lowering/small_matrix.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

class SmallRotations {
 public:
  SmallRotations(Lowering& lowering, const Op& op)
      : emitter_(lowering.emitter()), call_(*RotationsCall::of(op)) {
    const View state = lowering.view(op.operands[0]);
    const int batch = static_cast<int>(state.dims.size()) - 2;
    rows_ = state.dims[static_cast<size_t>(batch)].count;
    size_ = state.dims.back().count;
    for (int i = 0; i < 2; ++i) {
      given_.emplace_back(lowering.view(op.operands[static_cast<size_t>(i)]), batch);
      results_.emplace_back(lowering.allocate(op.results[static_cast<size_t>(i)]), batch);
    }
  }

  void run() {
    SmallMatrixWork::each(emitter_, given_[0].rows(), [this](const SmallMatrixWork& work, int64_t row) {
      const Tile both = work.fresh((rows_ + size_) * size_);
      angles_.emplace(emitter_, both.rows);
      given_[0].load(emitter_, both.column_range(0, rows_ * size_), row, 0);
      given_[1].load(emitter_, both.column_range(rows_ * size_, size_ * size_), row, 0);
      for (int64_t round = 0; round < call_.rounds; ++round) turn_pairs(work, both, pairs_of(round));
      results_[0].store(emitter_, both.column_range(0, rows_ * size_), row, 0);
      results_[1].store(emitter_, both.column_range(rows_ * size_, size_ * size_), row, 0);
    });
  }

 private:
  // Columns first + i and second + i for i below count.
  struct Pairs {
    int64_t first, second, count;
    int64_t begin() const { return std::min(first, second); }
    int64_t apart() const { return std::max(first, second) - begin(); }
    int64_t half_of_first() const { return first < second ? 0 : 1; }
  };

  // Neighbours in the chain 0, n/2, 1, n/2 + 1, ... of n columns: every one with the next in even rounds, and
  // with the one before in odd ones. Each pair changes places, so that any two meet once in n rounds.
  Pairs pairs_of(int64_t round) const {
    const int64_t half = size_ / 2;
    return round % 2 == 0 ? Pairs{0, half, half} : Pairs{half, 1, half - 1};
  }

  void turn_pairs(const SmallMatrixWork& work, const Tile& both, const Pairs& pairs) {
    if (pairs.count == 0) return;
    const RotationAngles angles = angles_of(work, both, pairs);
    turn_columns(work, both, pairs, angles);
    if (call_.both) turn_rows(work, both, pairs, angles);
  }

  // What makes the entry between the two of a pair zero, or their columns orthogonal.
  RotationAngles angles_of(const SmallMatrixWork& work, const Tile& state, const Pairs& pairs) {
    if (call_.both) {
      const auto entries = [&](int64_t row, int64_t column) {
        return state.patch(row * size_ + column, 1, 0, pairs.count, size_ + 1);
      };
      return angles_->angles(entries(pairs.first, pairs.first), entries(pairs.second, pairs.second),
                             entries(pairs.first, pairs.second));
    }
    const SmallMatrix a(state, size_, 1), squares = work.matrix(rows_, size_),
                                          products = work.matrix(rows_, pairs.count);
    const Tile lengths = work.fresh(size_), off = work.fresh(pairs.count);
    const Tile all = a.part(0, rows_, 0, size_);
    emitter_.tensor_tensor(AluOp::kMultiply, squares.part(0, rows_, 0, size_), all, all);
    emitter_.reduce(AluOp::kAdd, lengths, squares.transposed_part(0, rows_, 0, size_));
    emitter_.tensor_tensor(AluOp::kMultiply, products.part(0, rows_, 0, pairs.count),
                           a.part(0, rows_, pairs.first, pairs.count),
                           a.part(0, rows_, pairs.second, pairs.count));
    emitter_.reduce(AluOp::kAdd, off, products.transposed_part(0, rows_, 0, pairs.count));
    return angles_->angles(lengths.column_range(pairs.first, pairs.count),
                           lengths.column_range(pairs.second, pairs.count), off);
  }

  // The columns a and b of each pair become s a + c b and c a - s b, c the cosine and s = t c the sine:
  // turned, and in each other's place. Both halves are multiplied at once, and lie one after the other.
  void turn_columns(const SmallMatrixWork& work, const Tile& both, const Pairs& pairs,
                    const RotationAngles& angles) {
    const int64_t rows = rows_ + size_, count = pairs.count;
    const Tile by_cosine = work.fresh(2 * rows * count), by_sine = work.fresh(2 * rows * count);
    const auto all = [&](const Tile& by) { return by.patches(0, rows, 2 * count, 2, count, count, 1); };
    const auto factors = [&](const Tile& by) { return by.patches(0, rows, 0, 2, 0, count, 1); };
    emitter_.tensor_tensor(AluOp::kDivide, all(by_cosine),
                           both.patches(pairs.begin(), rows, size_, 2, pairs.apart(), count, 1),
                           factors(angles.secant));
    emitter_.tensor_tensor(AluOp::kMultiply, all(by_sine), all(by_cosine), factors(angles.tangent));
    const auto half = [&](const Tile& by, int64_t which) {
      return by.patch(which * count, rows, 2 * count, count, 1);
    };
    const auto columns = [&](int64_t first) { return both.patch(first, rows, size_, count, 1); };
    const int64_t a = pairs.half_of_first(), b = 1 - a;
    emitter_.tensor_tensor(AluOp::kAdd, columns(pairs.first), half(by_sine, a), half(by_cosine, b));
    emitter_.tensor_tensor(AluOp::kSubtract, columns(pairs.second), half(by_cosine, a), half(by_sine, b));
  }

  // The same of the rows of the state, which is square.
  void turn_rows(const SmallMatrixWork& work, const Tile& both, const Pairs& pairs,
                 const RotationAngles& angles) {
    const int64_t count = pairs.count, elements = count * size_;
    const Tile by_cosine = work.fresh(2 * elements), by_sine = work.fresh(2 * elements);
    const auto all = [&](const Tile& by) { return by.patches(0, 2, elements, count, size_, size_, 1); };
    const auto factors = [&](const Tile& by) { return by.patches(0, 2, 0, count, 1, size_, 0); };
    emitter_.tensor_tensor(
        AluOp::kDivide, all(by_cosine),
        both.patches(pairs.begin() * size_, 2, pairs.apart() * size_, count, size_, size_, 1),
        factors(angles.secant));
    emitter_.tensor_tensor(AluOp::kMultiply, all(by_sine), all(by_cosine), factors(angles.tangent));
    const auto half = [&](const Tile& by, int64_t which) {
      return by.column_range(which * elements, elements);
    };
    const auto rows = [&](int64_t first) { return both.column_range(first * size_, elements); };
    const int64_t a = pairs.half_of_first(), b = 1 - a;
    emitter_.tensor_tensor(AluOp::kAdd, rows(pairs.first), half(by_sine, a), half(by_cosine, b));
    emitter_.tensor_tensor(AluOp::kSubtract, rows(pairs.second), half(by_cosine, a), half(by_sine, b));
  }

  Emitter& emitter_;
  RotationsCall call_;
  int64_t rows_ = 0, size_ = 0;  // of the state, columns
  std::vector<Matrix> given_, results_;
  std::optional<AnglesOfPairs> angles_;
};

}  // namespace

bool has_small_rotations(const Function&, const Op& op) { return RotationsCall::of(op).has_value(); }

bool lower_small_rotations(Lowering& lowering, const Op& op) {
  if (!RotationsCall::of(op)) return false;
  SmallRotations(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
