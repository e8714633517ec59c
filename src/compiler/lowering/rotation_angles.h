// Angles of Jacobi's rotations, of many pairs at once: for the kernels small_rotations.cc and
// row_rotations.cc.
#pragma once

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

struct RotationAngles {
  Tile tangent, secant;  // by pair
};

class AnglesOfPairs {
 public:
  AnglesOfPairs(Emitter& emitter, int64_t rows);

  // What makes `off`, the entry between the two of a pair, zero, where p and q are their own entries.
  // twice = (q - p) / off, the tangent the smaller root of t^2 + twice t = 1: 2 / (twice + sqrt(twice^2 + 4))
  // of a twice that is not negative.
  RotationAngles angles(const Tile& p, const Tile& q, const Tile& off) const;

 private:
  Emitter& emitter_;
  Tile one_, four_;  // in every row
};

}  // namespace opentrn::compiler
