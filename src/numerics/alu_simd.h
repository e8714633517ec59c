// The vector loops of alu.h, chosen at run time for the processor. Each returns false for an operator
// that has no vector form (power, mod, fmod), having done nothing.
#pragma once

#include <cstddef>

#include "numerics/alu.h"

namespace opentrn::numerics::simd {

bool tensor_tensor(AluOp op, FloatRows a, FloatRows b, MutableFloatRows out, size_t rows, size_t n);
bool tensor_scalar(AluOp op, FloatRows a, RowScalars scalars, bool reverse, MutableFloatRows out, size_t rows,
                   size_t n);

struct TwoOps {
  AluOp op0, op1;
  bool reverse0, reverse1;
};
// (a op0 scalar) op1 b.
struct ScalarTensorTensorRows {
  FloatRows a;
  RowScalars scalars;
  FloatRows b;
  MutableFloatRows out;
  size_t rows, n;
};
bool scalar_tensor_tensor(TwoOps ops, const ScalarTensorTensorRows& rows);

// p[0] of alu_reduce, of each row; n > 0.
bool reduce_rows(AluOp op, FloatRows a, size_t rows, size_t n, float* out);

// Scans the first rows of a group, not reversed; returns how many, 0 where there is no vector form.
size_t scan_rows(AluOp op0, AluOp op1, const ScanRows& rows);

}  // namespace opentrn::numerics::simd
