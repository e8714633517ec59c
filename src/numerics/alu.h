// The ALU operators on rows of fp32 and on rows of integers.
//
// fp32 rules that hold for every operator:
// - Subnormals are kept. One IEEE operation rounds once, to nearest even.
// - A result that is NaN is the quiet NaN 0x7fc00000, so that bits agree between hosts whose
//   processors make different NaNs. kBypass and the selections abs_max and abs_min move bits.
// - Comparisons give 1.0 or 0.0 and are false for NaN, except not_equal. Logical operators read
//   "not equal to zero" (so NaN is true) and give 1.0 or 0.0.
// - maximum and minimum propagate NaN, as the numpy functions that nki.language names do; of two
//   equal operands (+0 and -0) the first is returned [assumed].
// - abs_max(a, b) is |a| > |b| ? a : b; abs_min(a, b) is |a| < |b| ? a : b [doc: nki.language.abs_max].
// - mod has the sign of the divisor, fmod that of the dividend; both are exact before the last
//   rounding [doc: nki.language.mod, fmod]. power follows numpy.power on special values.
// - average is (a + b) * 0.5 [assumed: undocumented]. rsqrt is 1 / sqrt(a), each step rounded.
// - Unary operators use `a` and ignore `b`.
// Integer (bit-vector) operators are refused here: use the _int functions.
//
// `out` may be `a` or `b` itself; other overlap is not allowed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/dtype.h"
#include "numerics/ops.h"

namespace opentrn::numerics {

// One element: the reference.
float alu(AluOp op, float a, float b);

// Rows of fp32 values, `pitch` floats apart; a pitch of 0 is the same row again.
struct FloatRows {
  const float* data;
  size_t pitch;
};
struct MutableFloatRows {
  float* data;
  size_t pitch;

  operator FloatRows() const { return {data, pitch}; }
};
// One number for each row, `step` floats apart; a step of 0 is the same number for all.
struct RowScalars {
  const float* data;
  size_t step;
};

// out[i] = a[i] op b[i]
void alu_tensor_tensor(AluOp op, const float* a, const float* b, float* out, size_t n);
// The same for `rows` rows of n elements.
void alu_tensor_tensor(AluOp op, FloatRows a, FloatRows b, MutableFloatRows out, size_t rows, size_t n);
// out[i] = a[i] op scalar, or scalar op a[i] when `reverse`. A reversed unary operator acts on `scalar`.
void alu_tensor_scalar(AluOp op, const float* a, float scalar, bool reverse, float* out, size_t n);
// The same for `rows` rows of n elements, each with its own scalar.
void alu_tensor_scalar(AluOp op, FloatRows a, RowScalars scalars, bool reverse, MutableFloatRows out,
                       size_t rows, size_t n);
// out[i] = (a[i] op0 scalar) op1 b[i] of each row, each reversed or not, in one pass: the bits of one after
// the other. False, and nothing is done, for operators that have no such loop.
bool alu_scalar_tensor_tensor(AluOp op0, AluOp op1, FloatRows a, RowScalars scalars, bool reverse0,
                              FloatRows b, bool reverse1, MutableFloatRows out, size_t rows, size_t n);

// Reduces a row to `init op (a[0] op ... op a[n-1])`, in this order on every host:
//   p[j] = a[j] op a[j + 32] op a[j + 64] ...           for j in 0..31, left to right
//   p[j] = p[j] op p[j + w]                             for w = 16, 8, 4, 2, 1 and j < w
//   result = init op p[0]
// where lanes that got no element do not take part. For kSubtract the row is added and the sum
// subtracted from init [assumed: the order in which hardware adds is not public].
// Allowed: is_reduction() operators and abs_max, abs_min.
inline constexpr size_t kReduceLanes = 32;
float alu_reduce(AluOp op, float init, const float* a, size_t n);
// Starts from the row's first elements instead of an init: p[0] of the above; for kSubtract from the first
// element, a[0] - a[1] - ... n > 0.
float alu_reduce(AluOp op, const float* a, size_t n);
// out[r] is that of row r, for `rows` rows of n elements.
void alu_reduce_rows(AluOp op, FloatRows a, size_t rows, size_t n, float* out);
// The same from init[r] on; `out` may be `init`.
void alu_reduce_rows(AluOp op, const float* init, FloatRows a, size_t rows, size_t n, float* out);

// out[i] = (d0[i] op0 out[i-1]) op1 d1[i], out[-1] = initial; strictly in order.
// reverse0: (out[i-1] op0 d0[i]); reverse1: d1[i] op1 (...). [doc: nki.isa.tensor_tensor_scan]
void alu_scan(AluOp op0, AluOp op1, const float* d0, const float* d1, float initial, float* out, size_t n,
              bool reverse0 = false, bool reverse1 = false);

// Rows of a scan, `pitch` floats apart.
struct ScanRows {
  size_t rows;
  size_t n;  // elements of a row
  const float* d0;
  size_t d0_pitch;
  const float* d1;
  size_t d1_pitch;
  const float* initial;  // one per row
  float* out;            // may be d0 or d1
  size_t out_pitch;
};
// alu_scan of each row; many rows cost far less than one by one.
void alu_scan_rows(AluOp op0, AluOp op1, ScanRows s, bool reverse0 = false, bool reverse1 = false);

// Integers of one type, held in int64 as load_i64 makes them; results wrap to the type's width.
// Comparisons and logical operators give 1 or 0. right_shift shifts in zeros. A shift count of the
// width or more, or negative, gives 0 (the sign for arithmetic_right_shift) [assumed]. divide
// truncates [assumed]; division by zero and a negative power are Fault{kUnspecified}. Operators
// without an integer meaning (rsqrt, reciprocal, sqrt, average) are Fault{kProgram}.
int64_t alu_int(AluOp op, DType dtype, int64_t a, int64_t b);
void alu_tensor_tensor_int(AluOp op, DType dtype, const int64_t* a, const int64_t* b, int64_t* out, size_t n);
void alu_tensor_scalar_int(AluOp op, DType dtype, const int64_t* a, int64_t scalar, bool reverse,
                           int64_t* out, size_t n);
// The same of rows of 32-bit integers where they lie, fast; `scalar` is one of their type. False, and nothing
// is done, for operators that have no such loop (division, powers and the selections by magnitude).
bool alu_tensor_tensor_int32(AluOp op, bool is_signed, const uint32_t* a, const uint32_t* b, uint32_t* out,
                             size_t n);
bool alu_tensor_scalar_int32(AluOp op, bool is_signed, const uint32_t* a, uint32_t scalar, bool reverse,
                             uint32_t* out, size_t n);
bool has_int32_rows(AluOp op);
int64_t alu_reduce_int(AluOp op, DType dtype, int64_t init, const int64_t* a, size_t n);

}  // namespace opentrn::numerics
