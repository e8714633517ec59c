// @opentrn.row_rotations (analysis/rotations_call.h): rows of matrices that lie over partitions, turned in
// pairs. The rows of the first half lie in one slot of a tile, those of the second half in the next: in even
// rounds the two of a partition are a pair. In odd ones a row of the second half is turned with the row of
// the first half that lies a partition further on, which is brought into a third slot. That is the order of
// small_rotations.cc: each pair changes places, so that any two rows meet once in as many rounds as there are
// rows. Matrices of a batch lie side by side.
#include <algorithm>

#include "compiler/analysis/rotations_call.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/rotation_angles.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

using graph::Function;
using graph::Op;

namespace {

// Numbers of a partition that one row of a matrix needs: three slots, what is turned, squares and products.
constexpr int64_t kTilesOfRow = 14;
constexpr int64_t kPartitionNumbers = 40 * 1024;

class RowRotations {
 public:
  RowRotations(Lowering& lowering, const Op& op)
      : emitter_(lowering.emitter()), call_(*RowRotationsCall::of(op)) {
    const View view = lowering.view(op.operands[0]);
    batch_ = view.dims[0].count;
    length_ = view.dims[2].count;
    given_ = by_rows(view);
    result_ = by_rows(lowering.allocate(op.results[0]));
    half_ = given_.rows() / 2;
  }

  void run() {
    const int64_t at_once = std::max<int64_t>(1, kPartitionNumbers / (kTilesOfRow * length_));
    for (int64_t first = 0; first < batch_; first += at_once) {
      matrices_ = std::min(at_once, batch_ - first);
      turn(first * length_);
    }
  }

 private:
  // Matrices side by side.
  static Matrix by_rows(const View& view) { return {view, {view.dims[1]}, {view.dims[0], view.dims[2]}}; }

  int64_t slot_columns() const { return matrices_ * length_; }
  Tile slot(int64_t which, int64_t rows) const {
    return all_.row_range(0, rows).column_range(which * slot_columns(), slot_columns());
  }
  Tile fresh(int64_t rows, int64_t columns) {
    return emitter_.sbuf(rows, columns, DType::kFloat32, "row_rotations");
  }

  void turn(int64_t column) {
    all_ = fresh(half_, 3 * slot_columns());
    const AnglesOfPairs angles(emitter_, half_);
    emitter_.memset(slot(2, half_), 0.0);  // its last row stays as it is
    given_.load(emitter_, slot(0, half_), 0, column);
    given_.load(emitter_, slot(1, half_), half_, column);
    const Tile beside = slot(2, half_).row_range(0, half_ - 1),
               first = slot(0, half_).row_range(1, half_ - 1);
    for (int64_t round = 0; round < call_.rounds; ++round) {
      if (round % 2 == 0) {
        turn_pairs(angles, 0, half_);
      } else if (half_ > 1) {
        emitter_.move(beside, first);
        turn_pairs(angles, 1, half_ - 1);
        emitter_.move(first, beside);
      }
    }
    result_.store(emitter_, slot(0, half_), 0, column);
    result_.store(emitter_, slot(1, half_), half_, column);
  }

  // Rows of a slot with those of the next one.
  void turn_pairs(const AnglesOfPairs& angles, int64_t first, int64_t rows) {
    const int64_t measured = call_.measured, count = matrices_ * measured;
    const Tile all = all_.row_range(0, rows);
    const auto measured_of = [&](int64_t begin, int64_t slots) {
      return all.patches(begin * slot_columns(), 1, 0, slots * matrices_, length_, measured, 1);
    };
    const Tile squares = fresh(rows, 2 * count).patch(0, 2 * matrices_, measured, measured, 1);
    const Tile products = fresh(rows, count).patch(0, matrices_, measured, measured, 1);
    const Tile lengths = fresh(rows, 2 * matrices_), off = fresh(rows, matrices_);
    emitter_.tensor_tensor(AluOp::kMultiply, squares, measured_of(first, 2), measured_of(first, 2));
    emitter_.reduce(AluOp::kAdd, lengths, squares);
    emitter_.tensor_tensor(AluOp::kMultiply, products, measured_of(first, 1), measured_of(first + 1, 1));
    emitter_.reduce(AluOp::kAdd, off, products);
    const RotationAngles by =
        angles.angles(lengths.column_range(0, matrices_), lengths.column_range(matrices_, matrices_), off);
    const Tile cosine = fresh(rows, matrices_);
    emitter_.tensor_scalar(AluOp::kDivide, cosine, by.secant, 1.0, true);
    for (int64_t matrix = 0; matrix < matrices_; ++matrix)
      turn_rows(matrix, first, rows, cosine.column_range(matrix, 1), by.tangent.column_range(matrix, 1));
  }

  // The rows a and b of each pair become s a + c b and c a - s b, c the cosine and s = t c the sine: turned,
  // and in each other's place.
  void turn_rows(int64_t matrix, int64_t first, int64_t rows, const Tile& cosine, const Tile& tangent) {
    const Tile by_cosine = fresh(rows, 2 * length_);
    const Tile a = by_cosine.column_range(0, length_), b = by_cosine.column_range(length_, length_);
    const auto row = [&](int64_t which) { return slot(which, rows).column_range(matrix * length_, length_); };
    emitter_.tensor_scalar(AluOp::kMultiply, by_cosine.patch(0, 2, length_, length_, 1),
                           all_.row_range(0, rows).patch(first * slot_columns() + matrix * length_, 2,
                                                         slot_columns(), length_, 1),
                           cosine);
    emitter_.scalar_tensor_tensor(AluOp::kMultiply, tangent, AluOp::kAdd, row(first), a, b);
    emitter_.scalar_tensor_tensor(AluOp::kMultiply, tangent, AluOp::kSubtract, row(first + 1), b, a, true);
  }

  Emitter& emitter_;
  RowRotationsCall call_;
  Matrix given_, result_;
  int64_t batch_ = 0, half_ = 0, length_ = 0, matrices_ = 0;
  Tile all_;
};

}  // namespace

bool has_row_rotations(const Function&, const Op& op) { return RowRotationsCall::of(op).has_value(); }

bool lower_row_rotations(Lowering& lowering, const Op& op) {
  if (!RowRotationsCall::of(op)) return false;
  RowRotations(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
