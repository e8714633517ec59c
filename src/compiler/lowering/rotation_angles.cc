#include "compiler/lowering/rotation_angles.h"

namespace opentrn::compiler {

AnglesOfPairs::AnglesOfPairs(Emitter& emitter, int64_t rows)
    : emitter_(emitter),
      one_(emitter.sbuf(rows, 1, DType::kFloat32, "one")),
      four_(emitter.sbuf(rows, 1, DType::kFloat32, "four")) {
  emitter.memset(one_, 1.0);
  emitter.memset(four_, 4.0);
}

// Added to the gap, kTiny makes it infinite, and the tangent zero, where gap and `off` are; next to any other
// number it is nothing.
RotationAngles AnglesOfPairs::angles(const Tile& p, const Tile& q, const Tile& off) const {
  constexpr double kTiny = 1.3e-38;
  const auto fresh = [&] { return emitter_.sbuf(off.rows, off.columns, DType::kFloat32, "angles"); };
  const Tile one = one_.row_range(0, off.rows), four = four_.row_range(0, off.rows);
  const Tile gap = fresh(), twice = fresh(), square = fresh(), root = fresh(), sum = fresh(), sign = fresh(),
             tangent = fresh(), tangent_square = fresh(), secant = fresh();
  emitter_.tensor_tensor(AluOp::kSubtract, gap, q, p);
  emitter_.scalar_tensor_tensor(AluOp::kAdd, kTiny, AluOp::kDivide, twice, gap, off);
  emitter_.tensor_tensor(AluOp::kMultiply, square, twice, twice);
  emitter_.activation(ActivationFunction::kSqrt, root, square, 1.0, four);
  emitter_.scalar_tensor_tensor(AluOp::kAbs, 0.0, AluOp::kAdd, sum, twice, root);
  emitter_.tensor_scalar(AluOp::kGreaterEqual, 0.0, AluOp::kMultiply, 4.0, sign, twice);
  emitter_.scalar_tensor_tensor(AluOp::kSubtract, 2.0, AluOp::kDivide, tangent, sign, sum);
  emitter_.tensor_tensor(AluOp::kMultiply, tangent_square, tangent, tangent);
  emitter_.activation(ActivationFunction::kSqrt, secant, tangent_square, 1.0, one);
  return {tangent, secant};
}

}  // namespace opentrn::compiler
