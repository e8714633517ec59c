#include "numerics/alu.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/fault.h"
#include "numerics/alu_simd.h"
#include "numerics/power.h"

namespace opentrn::numerics {
namespace {

float canonical(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7fc00000u) : x; }
float truth(bool condition) { return condition ? 1.0f : 0.0f; }
float maximum(float a, float b) { return a >= b || std::isnan(a) ? a : b; }
float minimum(float a, float b) { return a <= b || std::isnan(a) ? a : b; }

// numpy.mod: the remainder takes the divisor's sign; a zero remainder too.
float floored_mod(float a, float b) {
  if (b == 0.0f) return std::nanf("");
  const float remainder = std::fmod(a, b);
  if (remainder == 0.0f) return std::copysign(0.0f, b);
  return (b < 0.0f) != (remainder < 0.0f) ? remainder + b : remainder;
}

void refuse_bitvec(AluOp op) {
  if (!is_bitvec(op)) return;
  throw Fault(FaultKind::kProgram, "alu.bitvec",
              fmt::format("{} works on bits and cannot be applied to fp32 values", name(op)),
              "give it integer operands, or view the data as integers");
}

// The operators of a fast scan. The carried value need not be canonical: none of these looks at the
// bits of a NaN.
template <AluOp kOp>
float scan_step(float a, float b) {
  if constexpr (kOp == AluOp::kAdd) return a + b;
  if constexpr (kOp == AluOp::kSubtract) return a - b;
  if constexpr (kOp == AluOp::kMultiply) return a * b;
  if constexpr (kOp == AluOp::kMaximum) return maximum(a, b);
  return minimum(a, b);
}

struct Scan {
  const float* d0;
  const float* d1;
  float initial;
  float* out;
  size_t n;
  bool reverse0;
  bool reverse1;
};

template <AluOp kOp0, AluOp kOp1>
void fast_scan(const Scan& s) {
  float r = s.initial;
  for (size_t i = 0; i < s.n; ++i) {
    const float x = s.d0[i], y = s.d1[i];
    const float inner = s.reverse0 ? scan_step<kOp0>(r, x) : scan_step<kOp0>(x, r);
    r = s.reverse1 ? scan_step<kOp1>(y, inner) : scan_step<kOp1>(inner, y);
    s.out[i] = canonical(r);
  }
}

void slow_scan(AluOp op0, AluOp op1, const Scan& s) {
  float r = s.initial;
  for (size_t i = 0; i < s.n; ++i) {
    const float inner = s.reverse0 ? alu(op0, r, s.d0[i]) : alu(op0, s.d0[i], r);
    r = s.reverse1 ? alu(op1, s.d1[i], inner) : alu(op1, inner, s.d1[i]);
    s.out[i] = r;
  }
}

template <AluOp kOp0>
void scan_with(AluOp op1, const Scan& s) {
  switch (op1) {
    case AluOp::kAdd: return fast_scan<kOp0, AluOp::kAdd>(s);
    case AluOp::kSubtract: return fast_scan<kOp0, AluOp::kSubtract>(s);
    case AluOp::kMultiply: return fast_scan<kOp0, AluOp::kMultiply>(s);
    case AluOp::kMaximum: return fast_scan<kOp0, AluOp::kMaximum>(s);
    case AluOp::kMinimum: return fast_scan<kOp0, AluOp::kMinimum>(s);
    default: return slow_scan(kOp0, op1, s);
  }
}

// The operator that combines the elements of a reduction, and the one that joins init.
AluOp inner_reduction(AluOp op) { return op == AluOp::kSubtract ? AluOp::kAdd : op; }

void check_reduction(AluOp op) {
  refuse_bitvec(op);
  if (is_reduction(op) || op == AluOp::kAbsMax || op == AluOp::kAbsMin) return;
  throw Fault(FaultKind::kProgram, "alu.reduction", fmt::format("{} is not a reduction operator", name(op)),
              "use add, subtract, multiply, maximum, minimum or a logical operator");
}

}  // namespace

float alu(AluOp op, float a, float b) {
  switch (op) {
    case AluOp::kBypass: return a;
    case AluOp::kAdd: return canonical(a + b);
    case AluOp::kSubtract: return canonical(a - b);
    case AluOp::kMultiply: return canonical(a * b);
    case AluOp::kDivide: return canonical(a / b);
    case AluOp::kMaximum: return canonical(maximum(a, b));
    case AluOp::kMinimum: return canonical(minimum(a, b));
    case AluOp::kEqual: return truth(a == b);
    case AluOp::kNotEqual: return truth(a != b);
    case AluOp::kGreater: return truth(a > b);
    case AluOp::kGreaterEqual: return truth(a >= b);
    case AluOp::kLess: return truth(a < b);
    case AluOp::kLessEqual: return truth(a <= b);
    case AluOp::kLogicalAnd: return truth(a != 0.0f && b != 0.0f);
    case AluOp::kLogicalOr: return truth(a != 0.0f || b != 0.0f);
    case AluOp::kLogicalXor: return truth((a != 0.0f) != (b != 0.0f));
    case AluOp::kLogicalNot: return truth(a == 0.0f);
    case AluOp::kPower: return canonical(power(a, b));
    case AluOp::kAbsMax: return std::fabs(a) > std::fabs(b) ? a : b;
    case AluOp::kAbsMin: return std::fabs(a) < std::fabs(b) ? a : b;
    case AluOp::kMod: return canonical(floored_mod(a, b));
    case AluOp::kFmod: return canonical(std::fmod(a, b));
    case AluOp::kAverage: return canonical((a + b) * 0.5f);
    case AluOp::kAbs: return canonical(std::fabs(a));
    case AluOp::kSquare: return canonical(a * a);
    case AluOp::kRelu: return canonical(maximum(a, 0.0f));
    case AluOp::kRsqrt: return canonical(1.0f / std::sqrt(a));
    case AluOp::kReciprocal: return canonical(1.0f / a);
    case AluOp::kNegative: return canonical(-a);
    case AluOp::kSqrt: return canonical(std::sqrt(a));
    default: refuse_bitvec(op);
  }
  OPENTRN_CHECK(false, "no fp32 meaning for {}", name(op));
}

void alu_tensor_tensor(AluOp op, const float* a, const float* b, float* out, size_t n) {
  alu_tensor_tensor(op, {a, n}, {b, n}, {out, n}, 1, n);
}

void alu_tensor_tensor(AluOp op, FloatRows a, FloatRows b, MutableFloatRows out, size_t rows, size_t n) {
  if (simd::tensor_tensor(op, a, b, out, rows, n)) return;
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < n; ++i)
      out.data[r * out.pitch + i] = alu(op, a.data[r * a.pitch + i], b.data[r * b.pitch + i]);
}

void alu_tensor_scalar(AluOp op, const float* a, float scalar, bool reverse, float* out, size_t n) {
  alu_tensor_scalar(op, {a, n}, {&scalar, 0}, reverse, {out, n}, 1, n);
}

void alu_tensor_scalar(AluOp op, FloatRows a, RowScalars scalars, bool reverse, MutableFloatRows out,
                       size_t rows, size_t n) {
  if (simd::tensor_scalar(op, a, scalars, reverse, out, rows, n)) return;
  for (size_t r = 0; r < rows; ++r) {
    const float scalar = scalars.data[r * scalars.step];
    const float* const from = a.data + r * a.pitch;
    float* const to = out.data + r * out.pitch;
    for (size_t i = 0; i < n; ++i) to[i] = reverse ? alu(op, scalar, from[i]) : alu(op, from[i], scalar);
  }
}

bool alu_scalar_tensor_tensor(AluOp op0, AluOp op1, FloatRows a, RowScalars scalars, bool reverse0,
                              FloatRows b, bool reverse1, MutableFloatRows out, size_t rows, size_t n) {
  return simd::scalar_tensor_tensor({op0, op1, reverse0, reverse1}, {a, scalars, b, out, rows, n});
}

float alu_reduce(AluOp op, const float* a, size_t n) {
  float result = 0;
  alu_reduce_rows(op, {a, n}, 1, n, &result);
  return result;
}

void alu_reduce_rows(AluOp op, FloatRows a, size_t rows, size_t n, float* out) {
  check_reduction(op);
  OPENTRN_CHECK(n > 0, "a reduction without an initial value needs an element");
  if (op == AluOp::kSubtract) {
    for (size_t r = 0; r < rows; ++r) {
      const float* const row = a.data + r * a.pitch;
      out[r] = n == 1 ? canonical(row[0]) : alu_reduce(op, row[0], row + 1, n - 1);
    }
    return;
  }
  if (n == 1) {
    for (size_t r = 0; r < rows; ++r) out[r] = a.data[r * a.pitch];
  } else {
    simd::reduce_rows(op, a, rows, n, out);
  }
  const bool moves_bits = op == AluOp::kAbsMax || op == AluOp::kAbsMin;
  for (size_t r = 0; r < rows && !moves_bits; ++r) out[r] = canonical(out[r]);
}

float alu_reduce(AluOp op, float init, const float* a, size_t n) {
  float result = 0;
  alu_reduce_rows(op, &init, {a, n}, 1, n, &result);
  return result;
}

void alu_reduce_rows(AluOp op, const float* init, FloatRows a, size_t rows, size_t n, float* out) {
  constexpr size_t kAtATime = 64;
  check_reduction(op);
  if (n == 0) {
    std::copy_n(init, rows, out);
    return;
  }
  float sums[kAtATime];
  for (size_t first = 0; first < rows; first += kAtATime) {
    const size_t count = std::min(kAtATime, rows - first);
    alu_reduce_rows(inner_reduction(op), {a.data + first * a.pitch, a.pitch}, count, n, sums);
    for (size_t r = 0; r < count; ++r) out[first + r] = alu(op, init[first + r], sums[r]);
  }
}

void alu_scan(AluOp op0, AluOp op1, const float* d0, const float* d1, float initial, float* out, size_t n,
              bool reverse0, bool reverse1) {
  const Scan s{d0, d1, initial, out, n, reverse0, reverse1};
  switch (op0) {
    case AluOp::kAdd: return scan_with<AluOp::kAdd>(op1, s);
    case AluOp::kSubtract: return scan_with<AluOp::kSubtract>(op1, s);
    case AluOp::kMultiply: return scan_with<AluOp::kMultiply>(op1, s);
    case AluOp::kMaximum: return scan_with<AluOp::kMaximum>(op1, s);
    case AluOp::kMinimum: return scan_with<AluOp::kMinimum>(op1, s);
    default: return slow_scan(op0, op1, s);
  }
}

void alu_scan_rows(AluOp op0, AluOp op1, ScanRows s, bool reverse0, bool reverse1) {
  while (s.rows > 0) {
    size_t done = reverse0 || reverse1 ? 0 : simd::scan_rows(op0, op1, s);
    if (done == 0) {
      alu_scan(op0, op1, s.d0, s.d1, s.initial[0], s.out, s.n, reverse0, reverse1);
      done = 1;
    }
    s.rows -= done;
    s.d0 += done * s.d0_pitch;
    s.d1 += done * s.d1_pitch;
    s.initial += done;
    s.out += done * s.out_pitch;
  }
}

}  // namespace opentrn::numerics
