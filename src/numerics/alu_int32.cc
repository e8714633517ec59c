// The ALU operators on rows of 32-bit integers as they lie in memory: one loop per operator, which compilers
// make vector instructions of. alu_int.cc is the reference.
#include <algorithm>

#include "numerics/alu.h"

namespace opentrn::numerics {
namespace {

constexpr uint32_t kBits = 32;

uint32_t left(uint32_t a, uint32_t count) { return count < kBits ? a << (count & (kBits - 1)) : 0; }
uint32_t right(uint32_t a, uint32_t count) { return count < kBits ? a >> (count & (kBits - 1)) : 0; }
uint32_t arithmetic_right(uint32_t a, uint32_t count) {
  return static_cast<uint32_t>(static_cast<int32_t>(a) >> std::min(count, kBits - 1));
}

// Operators whose low 32 bits are the same for both signs.
template <typename Walk>
bool sign_free(AluOp op, Walk&& walk) {
  switch (op) {
    case AluOp::kBypass: return walk([](uint32_t a, uint32_t) { return a; });
    case AluOp::kInvert: return walk([](uint32_t a, uint32_t) { return ~a; });
    case AluOp::kBitwiseAnd: return walk([](uint32_t a, uint32_t b) { return a & b; });
    case AluOp::kBitwiseOr: return walk([](uint32_t a, uint32_t b) { return a | b; });
    case AluOp::kBitwiseXor: return walk([](uint32_t a, uint32_t b) { return a ^ b; });
    case AluOp::kLeftShift: return walk(left);
    case AluOp::kRightShift: return walk(right);
    case AluOp::kArithmeticRightShift: return walk(arithmetic_right);
    case AluOp::kAdd: return walk([](uint32_t a, uint32_t b) { return a + b; });
    case AluOp::kSubtract: return walk([](uint32_t a, uint32_t b) { return a - b; });
    case AluOp::kMultiply: return walk([](uint32_t a, uint32_t b) { return a * b; });
    case AluOp::kSquare: return walk([](uint32_t a, uint32_t) { return a * a; });
    case AluOp::kNegative: return walk([](uint32_t a, uint32_t) { return 0u - a; });
    case AluOp::kEqual: return walk([](uint32_t a, uint32_t b) { return uint32_t{a == b}; });
    case AluOp::kNotEqual: return walk([](uint32_t a, uint32_t b) { return uint32_t{a != b}; });
    case AluOp::kLogicalAnd:
      return walk([](uint32_t a, uint32_t b) { return uint32_t{a != 0} & uint32_t{b != 0}; });
    case AluOp::kLogicalOr: return walk([](uint32_t a, uint32_t b) { return uint32_t{(a | b) != 0}; });
    case AluOp::kLogicalXor:
      return walk([](uint32_t a, uint32_t b) { return uint32_t{a != 0} ^ uint32_t { b != 0 }; });
    case AluOp::kLogicalNot: return walk([](uint32_t a, uint32_t) { return uint32_t{a == 0}; });
    default: return false;
  }
}

template <typename T, typename Walk>
bool ordered(AluOp op, Walk&& walk) {
  const auto as = [](uint32_t x) { return static_cast<T>(x); };
  switch (op) {
    case AluOp::kMaximum: return walk([as](uint32_t a, uint32_t b) { return as(a) < as(b) ? b : a; });
    case AluOp::kMinimum: return walk([as](uint32_t a, uint32_t b) { return as(b) < as(a) ? b : a; });
    case AluOp::kGreater: return walk([as](uint32_t a, uint32_t b) { return uint32_t{as(a) > as(b)}; });
    case AluOp::kGreaterEqual: return walk([as](uint32_t a, uint32_t b) { return uint32_t{as(a) >= as(b)}; });
    case AluOp::kLess: return walk([as](uint32_t a, uint32_t b) { return uint32_t{as(a) < as(b)}; });
    case AluOp::kLessEqual: return walk([as](uint32_t a, uint32_t b) { return uint32_t{as(a) <= as(b)}; });
    case AluOp::kRelu: return walk([as](uint32_t a, uint32_t) { return as(a) < T{0} ? 0u : a; });
    default: return false;
  }
}

template <typename Walk>
bool any_of(AluOp op, bool is_signed, Walk&& walk) {
  if (sign_free(op, walk)) return true;
  return is_signed ? ordered<int32_t>(op, walk) : ordered<uint32_t>(op, walk);
}

}  // namespace

bool alu_tensor_tensor_int32(AluOp op, bool is_signed, const uint32_t* a, const uint32_t* b, uint32_t* out,
                             size_t n) {
  return any_of(op, is_signed, [&](auto f) {
    for (size_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
    return true;
  });
}

bool alu_tensor_scalar_int32(AluOp op, bool is_signed, const uint32_t* a, uint32_t scalar, bool reverse,
                             uint32_t* out, size_t n) {
  return any_of(op, is_signed, [&](auto f) {
    if (reverse)
      for (size_t i = 0; i < n; ++i) out[i] = f(scalar, a[i]);
    else
      for (size_t i = 0; i < n; ++i) out[i] = f(a[i], scalar);
    return true;
  });
}

bool has_int32_rows(AluOp op) {
  return any_of(op, true, [](auto) { return true; });
}

}  // namespace opentrn::numerics
