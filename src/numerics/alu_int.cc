// The ALU operators on integers: exact in the type's width, wrapping.
#include <algorithm>

#include "base/fault.h"
#include "numerics/alu.h"

namespace opentrn::numerics {
namespace {

// int64_t wraps by way of uint64_t, whose overflow is defined.
uint64_t u(int64_t x) { return static_cast<uint64_t>(x); }
int64_t s(uint64_t x) { return static_cast<int64_t>(x); }

struct Width {
  int bits;
  bool is_signed;

  explicit Width(DType dtype) : bits(8 * size_bytes(dtype)), is_signed(is_signed_integer(dtype)) {}

  uint64_t mask() const { return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
  // Keeps the low bits and extends them as the type does.
  int64_t wrap(uint64_t x) const {
    if (bits == 64) return s(x);
    const int unused = 64 - bits;
    return is_signed ? s(x << unused) >> unused : s(x & mask());
  }
  bool less(int64_t a, int64_t b) const { return is_signed ? a < b : u(a) < u(b); }
};

[[noreturn]] void no_integer_meaning(AluOp op) {
  throw Fault(FaultKind::kProgram, "alu.integer", fmt::format("{} has no exact integer form", name(op)),
              "let the operands be converted to fp32");
}

void check_divisor(AluOp op, int64_t b) {
  if (b != 0) return;
  throw Fault(
      FaultKind::kUnspecified, "alu.divide_by_zero",
      fmt::format("integer {} by zero: the public documentation does not say what it gives", name(op)));
}

int64_t quotient(const Width& w, int64_t a, int64_t b) {
  if (!w.is_signed) return s(u(a) / u(b));
  if (b == -1) return s(0 - u(a));  // the one quotient that overflows
  return a / b;
}

int64_t remainder(const Width& w, int64_t a, int64_t b) {
  if (!w.is_signed) return s(u(a) % u(b));
  return b == -1 ? 0 : a % b;
}

int64_t floored_mod(const Width& w, int64_t a, int64_t b) {
  const int64_t r = remainder(w, a, b);
  return w.is_signed && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t integer_power(const Width& w, int64_t base, int64_t exponent) {
  if (w.is_signed && exponent < 0) {
    throw Fault(
        FaultKind::kUnspecified, "alu.negative_power",
        fmt::format("integer power with exponent {}: the public documentation does not say what it gives",
                    exponent));
  }
  uint64_t result = 1, square = u(base);
  for (uint64_t e = u(exponent); e != 0; e >>= 1) {
    if ((e & 1) != 0) result *= square;
    square *= square;
  }
  return s(result);
}

int64_t shift(AluOp op, const Width& w, int64_t a, int64_t count) {
  const bool too_far = u(count) >= static_cast<uint64_t>(w.bits);
  if (op == AluOp::kLeftShift) return too_far ? 0 : s(u(a) << count);
  const uint64_t pattern = u(a) & w.mask();
  if (op == AluOp::kRightShift) return too_far ? 0 : s(pattern >> count);
  const int64_t extended = s(pattern << (64 - w.bits)) >> (64 - w.bits);
  return extended >> (too_far ? 63 : count);
}

uint64_t magnitude(const Width& w, int64_t a) { return w.is_signed && a < 0 ? 0 - u(a) : u(a); }

int64_t apply(AluOp op, const Width& w, int64_t a, int64_t b) {
  switch (op) {
    case AluOp::kBypass: return a;
    case AluOp::kInvert: return ~a;
    case AluOp::kBitwiseAnd: return a & b;
    case AluOp::kBitwiseOr: return a | b;
    case AluOp::kBitwiseXor: return a ^ b;
    case AluOp::kLeftShift:
    case AluOp::kRightShift:
    case AluOp::kArithmeticRightShift: return shift(op, w, a, b);
    case AluOp::kAdd: return s(u(a) + u(b));
    case AluOp::kSubtract: return s(u(a) - u(b));
    case AluOp::kMultiply: return s(u(a) * u(b));
    case AluOp::kDivide: check_divisor(op, b); return quotient(w, a, b);
    case AluOp::kMaximum: return w.less(a, b) ? b : a;
    case AluOp::kMinimum: return w.less(b, a) ? b : a;
    case AluOp::kEqual: return a == b;
    case AluOp::kNotEqual: return a != b;
    case AluOp::kGreater: return w.less(b, a);
    case AluOp::kGreaterEqual: return !w.less(a, b);
    case AluOp::kLess: return w.less(a, b);
    case AluOp::kLessEqual: return !w.less(b, a);
    case AluOp::kLogicalAnd: return a != 0 && b != 0;
    case AluOp::kLogicalOr: return a != 0 || b != 0;
    case AluOp::kLogicalXor: return (a != 0) != (b != 0);
    case AluOp::kLogicalNot: return a == 0;
    case AluOp::kPower: return integer_power(w, a, b);
    case AluOp::kAbsMax: return magnitude(w, a) > magnitude(w, b) ? a : b;
    case AluOp::kAbsMin: return magnitude(w, a) < magnitude(w, b) ? a : b;
    case AluOp::kMod: check_divisor(op, b); return floored_mod(w, a, b);
    case AluOp::kFmod: check_divisor(op, b); return remainder(w, a, b);
    case AluOp::kAbs: return s(magnitude(w, a));
    case AluOp::kSquare: return s(u(a) * u(a));
    case AluOp::kRelu: return w.is_signed && a < 0 ? 0 : a;
    case AluOp::kNegative: return s(0 - u(a));
    case AluOp::kAverage:
    case AluOp::kRsqrt:
    case AluOp::kReciprocal:
    case AluOp::kSqrt: no_integer_meaning(op);
  }
  OPENTRN_CHECK(false, "no integer meaning for {}", name(op));
}

template <typename Combine>
uint64_t folded(int64_t init, const int64_t* a, size_t n, Combine combine) {
  uint64_t result = u(init);
  for (size_t i = 0; i < n; ++i) result = combine(result, u(a[i]));
  return result;
}

void check_integer(DType dtype) {
  OPENTRN_CHECK(is_integer(dtype) || dtype == DType::kBool, "integer ALU on {}", name(dtype));
}

}  // namespace

int64_t alu_int(AluOp op, DType dtype, int64_t a, int64_t b) {
  check_integer(dtype);
  const Width w(dtype);
  return w.wrap(u(apply(op, w, a, b)));
}

void alu_tensor_tensor_int(AluOp op, DType dtype, const int64_t* a, const int64_t* b, int64_t* out,
                           size_t n) {
  check_integer(dtype);
  const Width w(dtype);
  for (size_t i = 0; i < n; ++i) out[i] = w.wrap(u(apply(op, w, a[i], b[i])));
}

void alu_tensor_scalar_int(AluOp op, DType dtype, const int64_t* a, int64_t scalar, bool reverse,
                           int64_t* out, size_t n) {
  check_integer(dtype);
  const Width w(dtype);
  for (size_t i = 0; i < n; ++i) {
    out[i] = w.wrap(u(reverse ? apply(op, w, scalar, a[i]) : apply(op, w, a[i], scalar)));
  }
}

int64_t alu_reduce_int(AluOp op, DType dtype, int64_t init, const int64_t* a, size_t n) {
  check_integer(dtype);
  if (!is_reduction(op) && op != AluOp::kAbsMax && op != AluOp::kAbsMin) {
    throw Fault(FaultKind::kProgram, "alu.reduction",
                fmt::format("{} is not a reduction operator", name(op)));
  }
  const Width w(dtype);
  // Low bits of these depend on low bits alone.
  switch (op) {
    case AluOp::kAdd: return w.wrap(folded(init, a, n, [](uint64_t x, uint64_t y) { return x + y; }));
    case AluOp::kBitwiseAnd: return w.wrap(folded(init, a, n, [](uint64_t x, uint64_t y) { return x & y; }));
    case AluOp::kBitwiseOr: return w.wrap(folded(init, a, n, [](uint64_t x, uint64_t y) { return x | y; }));
    case AluOp::kBitwiseXor: return w.wrap(folded(init, a, n, [](uint64_t x, uint64_t y) { return x ^ y; }));
    default: break;
  }
  int64_t result = init;
  for (size_t i = 0; i < n; ++i) result = w.wrap(u(apply(op, w, result, a[i])));
  return result;
}

}  // namespace opentrn::numerics
