// The ALU operators on rows of 32-bit integers as they lie in memory: one loop per operator, which compilers
// make vector instructions of, for each processor its own. alu_int.cc is the reference.
#include "numerics/simd_targets.h"

#include <algorithm>

#include "numerics/alu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/alu_int32.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics {
namespace HWY_NAMESPACE {

constexpr uint32_t kBits = 32;

HWY_ATTR HWY_INLINE uint32_t left(uint32_t a, uint32_t count) {
  return count < kBits ? a << (count & (kBits - 1)) : 0;
}
HWY_ATTR HWY_INLINE uint32_t right(uint32_t a, uint32_t count) {
  return count < kBits ? a >> (count & (kBits - 1)) : 0;
}
HWY_ATTR HWY_INLINE uint32_t arithmetic_right(uint32_t a, uint32_t count) {
  return static_cast<uint32_t>(static_cast<int32_t>(a) >> std::min(count, kBits - 1));
}

// Operators whose low 32 bits are the same for both signs.
template <typename Walk>
HWY_ATTR bool sign_free(AluOp op, Walk&& walk) {
  switch (op) {
    case AluOp::kBypass: return walk([](uint32_t a, uint32_t) HWY_ATTR { return a; });
    case AluOp::kInvert: return walk([](uint32_t a, uint32_t) HWY_ATTR { return ~a; });
    case AluOp::kBitwiseAnd: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return a & b; });
    case AluOp::kBitwiseOr: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return a | b; });
    case AluOp::kBitwiseXor: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return a ^ b; });
    case AluOp::kLeftShift: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return left(a, b); });
    case AluOp::kRightShift: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return right(a, b); });
    case AluOp::kArithmeticRightShift:
      return walk([](uint32_t a, uint32_t b) HWY_ATTR { return arithmetic_right(a, b); });
    case AluOp::kAdd: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return a + b; });
    case AluOp::kSubtract: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return a - b; });
    case AluOp::kMultiply: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return a * b; });
    case AluOp::kSquare: return walk([](uint32_t a, uint32_t) HWY_ATTR { return a * a; });
    case AluOp::kNegative: return walk([](uint32_t a, uint32_t) HWY_ATTR { return 0u - a; });
    case AluOp::kEqual: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{a == b}; });
    case AluOp::kNotEqual: return walk([](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{a != b}; });
    case AluOp::kLogicalAnd:
      return walk([](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{a != 0} & uint32_t{b != 0}; });
    case AluOp::kLogicalOr:
      return walk([](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{(a | b) != 0}; });
    case AluOp::kLogicalXor:
      return walk([](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{a != 0} ^ uint32_t { b != 0 }; });
    case AluOp::kLogicalNot: return walk([](uint32_t a, uint32_t) HWY_ATTR { return uint32_t{a == 0}; });
    default: return false;
  }
}

template <typename T, typename Walk>
HWY_ATTR bool ordered(AluOp op, Walk&& walk) {
  const auto as = [](uint32_t x) HWY_ATTR { return static_cast<T>(x); };
  switch (op) {
    case AluOp::kMaximum:
      return walk([as](uint32_t a, uint32_t b) HWY_ATTR { return as(a) < as(b) ? b : a; });
    case AluOp::kMinimum:
      return walk([as](uint32_t a, uint32_t b) HWY_ATTR { return as(b) < as(a) ? b : a; });
    case AluOp::kGreater:
      return walk([as](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{as(a) > as(b)}; });
    case AluOp::kGreaterEqual:
      return walk([as](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{as(a) >= as(b)}; });
    case AluOp::kLess: return walk([as](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{as(a) < as(b)}; });
    case AluOp::kLessEqual:
      return walk([as](uint32_t a, uint32_t b) HWY_ATTR { return uint32_t{as(a) <= as(b)}; });
    case AluOp::kRelu: return walk([as](uint32_t a, uint32_t) HWY_ATTR { return as(a) < T{0} ? 0u : a; });
    default: return false;
  }
}

template <typename Walk>
HWY_ATTR bool any_of(AluOp op, bool is_signed, Walk&& walk) {
  if (sign_free(op, walk)) return true;
  return is_signed ? ordered<int32_t>(op, walk) : ordered<uint32_t>(op, walk);
}

HWY_ATTR bool TensorTensorInt32(AluOp op, bool is_signed, const uint32_t* a, const uint32_t* b, uint32_t* out,
                                size_t n) {
  return any_of(op, is_signed, [&](auto f) HWY_ATTR {
    for (size_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
    return true;
  });
}

HWY_ATTR bool TensorScalarInt32(AluOp op, bool is_signed, const uint32_t* a, uint32_t scalar, bool reverse,
                                uint32_t* out, size_t n) {
  return any_of(op, is_signed, [&](auto f) HWY_ATTR {
    if (reverse)
      for (size_t i = 0; i < n; ++i) out[i] = f(scalar, a[i]);
    else
      for (size_t i = 0; i < n; ++i) out[i] = f(a[i], scalar);
    return true;
  });
}

HWY_ATTR bool HasRowsInt32(AluOp op) {
  return any_of(op, true, [](auto) HWY_ATTR { return true; });
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opentrn::numerics {
HWY_EXPORT(TensorTensorInt32);
HWY_EXPORT(TensorScalarInt32);
HWY_EXPORT(HasRowsInt32);

bool alu_tensor_tensor_int32(AluOp op, bool is_signed, const uint32_t* a, const uint32_t* b, uint32_t* out,
                             size_t n) {
  return HWY_DYNAMIC_DISPATCH(TensorTensorInt32)(op, is_signed, a, b, out, n);
}

bool alu_tensor_scalar_int32(AluOp op, bool is_signed, const uint32_t* a, uint32_t scalar, bool reverse,
                             uint32_t* out, size_t n) {
  return HWY_DYNAMIC_DISPATCH(TensorScalarInt32)(op, is_signed, a, scalar, reverse, out, n);
}

bool has_int32_rows(AluOp op) { return HWY_DYNAMIC_DISPATCH(HasRowsInt32)(op); }

}  // namespace opentrn::numerics
#endif  // HWY_ONCE
