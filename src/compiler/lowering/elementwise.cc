#include "compiler/lowering/elementwise.h"

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "compiler/analysis/activation_op.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/takes.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

// fp32 numbers of this size and more are whole.
constexpr double kWhole = 8388608.0;
// Rounded to fp32, a whole number stays on its side of one that is smaller than this, and equals it only
// where it did before.
constexpr double kExactlyCompared = 16777216.0;

bool is_int32(ElementType element) {
  const auto dtype = device_dtype(element);
  return dtype == DType::kInt32 || dtype == DType::kUint32;
}

std::optional<ActivationFunction> activation_of(OpKind kind) {
  switch (kind) {
    case OpKind::exponential_: return ActivationFunction::kExp;
    case OpKind::tanh_: return ActivationFunction::kTanh;
    case OpKind::logistic_: return ActivationFunction::kSigmoid;
    case OpKind::log_: return ActivationFunction::kLog;
    case OpKind::sqrt_: return ActivationFunction::kSqrt;
    case OpKind::rsqrt_: return ActivationFunction::kRsqrt;
    case OpKind::chlo_erf_: return ActivationFunction::kErf;
    case OpKind::chlo_square_: return ActivationFunction::kSquare;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<ActivationFunction> activation_function(const Op& op) {
  return op.kind == OpKind::composite_ ? activation_of_composite(op) : activation_of(op.kind);
}

std::optional<ActivationFunction> first_function(const Op& op) {
  switch (op.kind) {
    case OpKind::sine_:
    case OpKind::cosine_: return ActivationFunction::kSin;
    case OpKind::log_plus_one_: return ActivationFunction::kLog;
    case OpKind::exponential_minus_one_: return ActivationFunction::kTanh;
    default: return activation_function(op);
  }
}

bool is_short_program(const graph::Function& function) {
  constexpr size_t kShortOps = 64;
  return function.block(function.body()).ops.size() <= kShortOps;
}

namespace {

std::optional<AluOp> arithmetic_of(OpKind kind) {
  switch (kind) {
    case OpKind::add_: return AluOp::kAdd;
    case OpKind::subtract_: return AluOp::kSubtract;
    case OpKind::multiply_: return AluOp::kMultiply;
    case OpKind::divide_: return AluOp::kDivide;
    case OpKind::maximum_: return AluOp::kMaximum;
    case OpKind::minimum_: return AluOp::kMinimum;
    case OpKind::power_: return AluOp::kPower;
    case OpKind::remainder_: return AluOp::kFmod;
    default: return std::nullopt;
  }
}

std::optional<AluOp> bitwise_of(OpKind kind) {
  switch (kind) {
    case OpKind::and_: return AluOp::kBitwiseAnd;
    case OpKind::or_: return AluOp::kBitwiseOr;
    case OpKind::xor_: return AluOp::kBitwiseXor;
    case OpKind::shift_left_: return AluOp::kLeftShift;
    case OpKind::shift_right_logical_: return AluOp::kRightShift;
    case OpKind::shift_right_arithmetic_: return AluOp::kArithmeticRightShift;
    default: return std::nullopt;
  }
}

AluOp comparison_of(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::kEq: return AluOp::kEqual;
    case ComparisonDirection::kNe: return AluOp::kNotEqual;
    case ComparisonDirection::kGe: return AluOp::kGreaterEqual;
    case ComparisonDirection::kGt: return AluOp::kGreater;
    case ComparisonDirection::kLe: return AluOp::kLessEqual;
    case ComparisonDirection::kLt: return AluOp::kLess;
  }
  OPENTRN_CHECK(false, "comparison direction {}", static_cast<int>(direction));
  return AluOp::kEqual;
}

bool is_shift(AluOp op) {
  return op == AluOp::kLeftShift || op == AluOp::kRightShift || op == AluOp::kArithmeticRightShift;
}

bool commutes(AluOp op) {
  return op == AluOp::kAdd || op == AluOp::kMultiply || op == AluOp::kMaximum || op == AluOp::kMinimum ||
         op == AluOp::kEqual || op == AluOp::kNotEqual;
}

// `a op b` is `b mirrored(op) a`.
AluOp mirrored(AluOp op) {
  switch (op) {
    case AluOp::kGreater: return AluOp::kLess;
    case AluOp::kGreaterEqual: return AluOp::kLessEqual;
    case AluOp::kLess: return AluOp::kGreater;
    case AluOp::kLessEqual: return AluOp::kGreaterEqual;
    default: return op;
  }
}

// One op being written.
class Body {
 public:
  Body(Emitter& emitter, const graph::Function& function, const Op& op, ElementType result, int64_t rows,
       int64_t columns, const std::optional<Tile>& into)
      : emitter_(emitter),
        function_(function),
        op_(op),
        result_(result),
        rows_(rows),
        columns_(columns),
        into_(into) {}

  Tile fresh(DType dtype) {
    return emitter_.sbuf(rows_, columns_, dtype, std::string(graph::name(op_.kind)) + "_t");
  }
  Tile result() {
    if (into_ && into_->dtype == *device_dtype(result_)) return *into_;
    return emitter_.sbuf(rows_, columns_, *device_dtype(result_), std::string(graph::name(op_.kind)));
  }

  // The number in every column: one column, read again and again.
  Tile number(DType dtype, double value) {
    const Tile tile = emitter_.sbuf(rows_, 1, dtype, "number");
    emitter_.memset(tile, value);
    return columns_ > 1 ? tile.repeated(columns_) : tile;
  }

  // The term as a tile of all columns.
  Tile full(const Term& term) {
    if (term.splat) return number(*device_dtype(term.element), *term.splat);
    return term.column && columns_ > 1 ? term.tile.repeated(columns_) : term.tile;
  }

  // A float column as the fp32 scalar operand of an instruction.
  Scalar scalar(const Term& term) {
    if (term.splat) return *term.splat;
    if (term.tile.dtype == DType::kFloat32) return term.tile;
    const Tile wide = emitter_.sbuf(rows_, 1, DType::kFloat32, "column");
    emitter_.tensor_copy(wide, term.tile);
    return wide;
  }

  bool is_scalar(const Term& term) const { return term.splat || (term.column && columns_ > 1); }

  void float_binary(AluOp op, const Tile& dst, const Term& a, const Term& b) {
    if (is_scalar(b) && !a.splat) return emitter_.tensor_scalar(op, dst, full(a), scalar(b));
    if (is_scalar(a) && !b.splat) {
      if (commutes(op) || mirrored(op) != op)
        return emitter_.tensor_scalar(mirrored(op), dst, full(b), scalar(a));
      return emitter_.tensor_scalar(op, dst, full(b), scalar(a), /*reverse=*/true);
    }
    const Tile left = full(a), right = full(b);
    if (op == AluOp::kMultiply && left == right) return emitter_.square(dst, left);
    emitter_.tensor_tensor(op, dst, left, right);
  }

  // A 64-bit constant in the 32 bits that the device has of it, for ops whose low words are those of their
  // operands' low words. Another op is left with a number that memset refuses.
  double low_word(double value) const {
    constexpr double kExactMax = 0x1p53;
    switch (op_.kind) {
      case OpKind::and_:
      case OpKind::or_:
      case OpKind::xor_:
      case OpKind::add_:
      case OpKind::subtract_:
      case OpKind::multiply_: break;
      default: return value;
    }
    if (std::abs(value) > kExactMax) return value;
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)));
  }

  // Operands as 32-bit integers.
  Tile wide_int(const Term& term) {
    if (is_int32(term.element) || term.splat) {
      if (!term.splat) return full(term);
      const DType dtype = is_int32(term.element) ? *device_dtype(term.element) : DType::kInt32;
      const double value = is_narrowed(term.element) ? low_word(*term.splat) : *term.splat;
      return number(value < 0 ? DType::kInt32 : dtype, value).as(dtype);
    }
    const Tile tile = fresh(DType::kInt32);
    emitter_.tensor_copy(tile, full(term));
    return tile;
  }

  Tile without_sign_extension(const Tile& wide, ElementType element) {
    const Tile dst = fresh(DType::kInt32);
    const auto mask = static_cast<double>((int64_t{1} << graph::bit_width(element)) - 1);
    emitter_.tensor_tensor(AluOp::kBitwiseAnd, dst, wide, number(DType::kInt32, mask));
    return dst;
  }

  Tile narrowed(const Tile& wide) { return narrow_integer(emitter_, wide, result_); }

  Tile int_binary(AluOp op, const Term& a, const Term& b) {
    Tile x = wide_int(a);
    if (op == AluOp::kRightShift && !is_int32(a.element)) x = without_sign_extension(x, a.element);
    const bool placed = into_ && is_int32(result_) && into_->dtype == x.dtype;
    const Tile dst = placed ? *into_ : fresh(x.dtype);
    if (b.splat && is_shift(op) && *b.splat >= 0)
      emitter_.tensor_scalar(op, dst, x, *b.splat);
    else
      emitter_.tensor_tensor(op, dst, x, wide_int(b));
    return narrowed(dst);
  }

  // Quotient towards zero; -1 for a divisor of zero, and its remainder is x [doc: stablehlo spec leaves both
  // open; this is what XLA does].
  Tile int_division(const Term& a, const Term& b, bool remainder) {
    const Tile x = wide_int(a), y = wide_int(b);
    const auto made = [&](AluOp op, const Tile& l, const Tile& r) {
      const Tile dst = fresh(x.dtype);
      emitter_.tensor_tensor(op, dst, l, r);
      return dst;
    };
    if (b.splat && *b.splat != 0) {
      const Tile quotient = made(AluOp::kDivide, x, y);
      if (!remainder) return narrowed(quotient);
      return narrowed(made(AluOp::kSubtract, x, made(AluOp::kMultiply, quotient, y)));
    }
    const Tile zero = number(x.dtype, 0.0);
    const Tile is_zero = made(AluOp::kEqual, y, zero);
    const Tile divisor = made(AluOp::kAdd, y, is_zero);
    const Tile quotient = made(AluOp::kDivide, x, divisor);
    if (remainder) {
      const Tile rest = made(AluOp::kSubtract, x, made(AluOp::kMultiply, quotient, divisor));
      emitter_.copy_where(rest, x, is_zero.as(DType::kUint32));
      return narrowed(rest);
    }
    emitter_.copy_where(quotient, made(AluOp::kSubtract, zero, made(AluOp::kEqual, zero, zero)),
                        is_zero.as(DType::kUint32));
    return narrowed(quotient);
  }

  // Integers in the order of the floats' bits: -NaN, -inf, ..., -0, 0, ..., inf, NaN. Every format fits fp32.
  Tile total_order_key(const Term& term) {
    const Tile value = fresh(DType::kFloat32), sign = fresh(DType::kInt32), flip = fresh(DType::kInt32),
               key = fresh(DType::kInt32), places = number(DType::kInt32, 31.0),
               low = number(DType::kInt32, 2147483647.0);
    emitter_.tensor_copy(value, full(term));
    const Tile bits = value.as(DType::kInt32);
    emitter_.tensor_tensor(AluOp::kArithmeticRightShift, sign, bits, places);
    emitter_.tensor_tensor(AluOp::kBitwiseAnd, flip, sign, low);
    emitter_.tensor_tensor(AluOp::kBitwiseXor, key, bits, flip);
    return key;
  }

  static bool is_exactly_compared(const Term& term) {
    return term.splat && std::abs(*term.splat) < kExactlyCompared;
  }

  Tile compare(const Term& a, const Term& b) {
    const AluOp op = comparison_of(op_.enumeration(Attr::comparison_direction, ComparisonDirection::kEq));
    const Tile dst = result();
    const bool total =
        graph::is_float(a.element) && op_.enumeration(Attr::compare_type, graph::ComparisonType::kNone) ==
                                          graph::ComparisonType::kTotalOrder;
    if (!total && (!is_int32(a.element) || (is_exactly_compared(b) && !a.splat) ||
                   (is_exactly_compared(a) && !b.splat))) {
      float_binary(op, dst, a, b);
      return dst;
    }
    const Tile x = total ? total_order_key(a) : wide_int(a), y = total ? total_order_key(b) : wide_int(b),
               wide = fresh(x.dtype);
    emitter_.tensor_tensor(op, wide, x, y);
    emitter_.tensor_copy(dst, wide);
    return dst;
  }

  // What is read here for the last time is overwritten.
  Tile select(const Term& predicate, const Term& on_true, const Term& on_false) {
    if (on_false.is_last_read && !into_) {
      emitter_.copy_where(on_false.tile, full(on_true), full(predicate));
      return on_false.tile;
    }
    const Tile dst = result();
    if (on_false.splat)
      emitter_.memset(dst, *on_false.splat);
    else
      emitter_.tensor_copy(dst, full(on_false));
    emitter_.copy_where(dst, full(on_true), full(predicate));
    return dst;
  }

  Tile activation(ActivationFunction function, const Term& x, double scale = 1.0) {
    const Tile dst = result();
    emitter_.activation(function, dst, full(x), scale);
    return dst;
  }

  Tile scaled(const Term& x, AluOp op, double number) {
    const Tile dst = result();
    emitter_.tensor_scalar(op, dst, full(x), number);
    return dst;
  }

  Tile fp32(AluOp op, const Tile& a, const Scalar& b, bool reverse = false) {
    const Tile dst = fresh(DType::kFloat32);
    emitter_.tensor_scalar(op, dst, a, b, reverse);
    return dst;
  }
  Tile fp32(AluOp op, const Tile& a, const Tile& b) {
    const Tile dst = fresh(DType::kFloat32);
    emitter_.tensor_tensor(op, dst, a, b);
    return dst;
  }
  Tile fp32(ActivationFunction function, const Tile& a, double scale = 1.0) {
    const Tile dst = fresh(DType::kFloat32);
    emitter_.activation(function, dst, a, scale);
    return dst;
  }
  Tile rounded(const Tile& value) {
    if (*device_dtype(result_) == DType::kFloat32) return value;
    const Tile dst = result();
    emitter_.tensor_copy(dst, value);
    return dst;
  }

  Tile in_fp32(const Tile& value) {
    if (value.dtype == DType::kFloat32) return value;
    const Tile dst = fresh(DType::kFloat32);
    emitter_.tensor_copy(dst, value);
    return dst;
  }

  // x with the sizes that only whole numbers have cut off: an infinity has no remainder (NaN), 2^24 has 0.
  Tile with_remainder(const Tile& x) {
    const Tile dst = fresh(DType::kFloat32);
    emitter_.tensor_scalar(AluOp::kMinimum, 2 * kWhole, AluOp::kMaximum, -2 * kWhole, dst, x);
    return dst;
  }

  // x - mod(x, 1), exact in fp32: mod has the sign of the divisor, fmod that of x.
  Tile whole_part(const Tile& x, AluOp remainder) {
    const Tile dst = fresh(DType::kFloat32);
    emitter_.scalar_tensor_tensor(remainder, 1.0, AluOp::kSubtract, dst, with_remainder(x), x,
                                  /*reverse1=*/true);
    return dst;
  }

  // -(-x - mod(-x, 1)): not mod(-x, 1) - -x, which is 0 and not -0 right below zero.
  Tile ceiling(const Tile& x) {
    return fp32(AluOp::kMultiply, whole_part(fp32(AluOp::kMultiply, x, -1.0), AluOp::kMod), -1.0);
  }

  // Adding and taking away 2^23, with the number's sign, leaves the nearest whole number, ties to even, for
  // |x| < 2^23. From there on all numbers are whole. What is rounded to zero keeps its sign, which sums lose.
  Tile nearest_even(const Tile& x) {
    const Tile up = fresh(DType::kFloat32), down = fresh(DType::kFloat32), near = fresh(DType::kFloat32);
    emitter_.tensor_scalar(AluOp::kMaximum, 0.0, AluOp::kAdd, kWhole, up, x);
    emitter_.tensor_scalar(AluOp::kMinimum, 0.0, AluOp::kSubtract, kWhole, down, x);
    emitter_.scalar_tensor_tensor(AluOp::kAdd, kWhole, AluOp::kAdd, near, down,
                                  fp32(AluOp::kSubtract, up, kWhole));
    const Tile dst = fresh(DType::kFloat32), small = fresh(DType::kUint8);
    emitter_.tensor_scalar(AluOp::kAbs, 0.0, AluOp::kLess, kWhole, small, x);
    emitter_.tensor_copy(dst, x);
    emitter_.copy_where(dst, near, small);
    return with_sign(dst, in_fp32(x));
  }

  // The Scalar engine takes sines of [-pi, pi] alone. In place of pi, turns are of its nearest fp32 number,
  // P, and of a larger one that is nearly a multiple of 2 pi, so that remainders are exact, and the
  // difference between a multiple of pi and what was taken away is the angle by a factor.
  struct Turns {
    // 2 * 5419351 = 2 * 1725033 pi + 7.64e-8, by a convergent of pi.
    static constexpr double kFar = 10838702, kFarExcess = 7.640095014179322e-08 / kFar;
    static constexpr double kHalf = std::numbers::pi_v<float>;
    static constexpr double kExcess = (kHalf - std::numbers::pi) / kHalf;
    // Beyond it the excess would leave [-pi, pi]: results are in [-1, 1] and no more.
    static constexpr double kMax = 0x1p47;
    // Added to a number below 2^22, it leaves the nearest whole number in the last bits; it is even.
    static constexpr double kMagic = 1.5 * kWhole;
  };

  // sin x: with k the nearest whole number to x / pi and r = x - k pi in [-pi/2, pi/2], it is (-1)^k sin r.
  // Near k = 0 it is x, with its sign. cos x is that of |x|, which is -sin(|x| - pi/2).
  Tile sine(const Tile& x, bool is_cosine) {
    constexpr double kHalf = Turns::kHalf;
    const auto two = [&](AluOp op0, double a, AluOp op1, double b, const Tile& data) {
      const Tile dst = fresh(DType::kFloat32);
      emitter_.tensor_scalar(op0, a, op1, b, dst, data);
      return dst;
    };
    const auto with_tile = [&](AluOp op0, double a, AluOp op1, const Tile& data, const Tile& other) {
      const Tile dst = fresh(DType::kFloat32);
      emitter_.scalar_tensor_tensor(op0, a, op1, dst, data, other);
      return dst;
    };
    const Tile far =
        is_cosine ? two(AluOp::kAbs, 0.0, AluOp::kFmod, Turns::kFar, x) : fp32(AluOp::kFmod, x, Turns::kFar);
    const Tile bounded = is_cosine ? two(AluOp::kAbs, 0.0, AluOp::kMinimum, Turns::kMax, x)
                                   : two(AluOp::kMaximum, -Turns::kMax, AluOp::kMinimum, Turns::kMax, x);
    const Tile share = two(AluOp::kFmod, 2 * kHalf, AluOp::kMultiply, std::numbers::inv_pi, far);
    const Tile k = is_cosine ? two(AluOp::kSubtract, 0.5, AluOp::kAdd, Turns::kMagic, share)
                             : fp32(AluOp::kAdd, share, Turns::kMagic);
    // |k| <= 2: exact, as is what it leaves.
    const Tile halves = two(AluOp::kSubtract, Turns::kMagic, AluOp::kMultiply, kHalf, k);
    Tile rest = with_tile(AluOp::kFmod, 2 * kHalf, AluOp::kSubtract, far, halves);
    constexpr double kFarFactor = Turns::kExcess - Turns::kFarExcess;
    if (is_cosine)
      rest =
          with_tile(AluOp::kSubtract, kHalf / 2, AluOp::kAdd, rest, fp32(AluOp::kMultiply, far, kFarFactor));
    else
      rest = with_tile(AluOp::kMultiply, kFarFactor, AluOp::kAdd, far, rest);
    rest = with_tile(AluOp::kMultiply, Turns::kFarExcess, AluOp::kAdd, bounded, rest);
    const Tile sign = two(AluOp::kMod, 2.0, AluOp::kSubtract, 0.5, k);
    const Tile dst = result();
    emitter_.activation(ActivationFunction::kSin, dst,
                        with_tile(AluOp::kMultiply, is_cosine ? 2.0 : -2.0, AluOp::kMultiply, rest, sign));
    return dst;
  }

  // The Scalar engine takes arctangents of [-pi/2, pi/2]; beyond 1 it is pi/2 less that of the reciprocal.
  Tile arctangent(const Tile& x) {
    const Tile size = fp32(AluOp::kAbs, x, 0.0), large = fresh(DType::kUint8);
    emitter_.tensor_scalar(AluOp::kGreater, large, size, 1.0);
    const Tile inverse = fp32(AluOp::kDivide, size, 1.0, /*reverse=*/true);
    const Tile inside = fresh(DType::kFloat32);
    emitter_.tensor_copy(inside, size);
    emitter_.copy_where(inside, inverse, large);
    const Tile angle = fp32(ActivationFunction::kArctan, inside);
    emitter_.copy_where(angle, fp32(AluOp::kSubtract, angle, std::numbers::pi / 2, /*reverse=*/true), large);
    // Small numbers are their own arctangent, -0 too.
    return with_sign(angle, x);
  }

  // With the sign bit of `from`; the number itself is of that sign, or not negative.
  Tile with_sign(const Tile& magnitude, const Tile& from) {
    const Tile sign = fresh(DType::kUint32), dst = fresh(DType::kFloat32);
    emitter_.tensor_tensor(AluOp::kBitwiseAnd, sign, from.as(DType::kUint32),
                           number(DType::kUint32, 2147483648.0));
    emitter_.tensor_tensor(AluOp::kBitwiseOr, dst.as(DType::kUint32), magnitude.as(DType::kUint32), sign);
    return dst;
  }

  // Copied as whole numbers, which keeps every bit.
  Tile same_bits(const Tile& x) {
    const Tile dst = result();
    const int64_t bytes = size_bytes(dst.dtype);
    const DType whole = bytes == 4 ? DType::kUint32 : bytes == 2 ? DType::kUint16 : DType::kUint8;
    emitter_.tensor_copy(dst.as(whole), x.as(whole));
    return dst;
  }

  // 2 t / (1 - t) with t = tanh(x / 2), which keeps small results exact; exp(x) - 1 beyond |x| > 1.
  Tile expm1(const Tile& x) {
    const Tile t = fp32(ActivationFunction::kTanh, x, 0.5);
    const Tile below = fp32(AluOp::kSubtract, t, 1.0, /*reverse=*/true);
    const Tile near = fresh(DType::kFloat32);
    emitter_.scalar_tensor_tensor(AluOp::kMultiply, 2.0, AluOp::kDivide, near, t, below);
    const Tile dst = fp32(AluOp::kSubtract, fp32(ActivationFunction::kExp, x), 1.0);
    const Tile small = fresh(DType::kUint8);
    emitter_.tensor_scalar(AluOp::kAbs, 0.0, AluOp::kLess, 1.0, small, x);
    emitter_.copy_where(dst, near, small);
    return dst;
  }

  // log(u) + (x - (u - 1)) / u with u = 1 + x rounded: what rounding lost, to first order. Bounded so that
  // the second term is 0 where u is 0 or infinite.
  Tile log1p(const Tile& x) {
    constexpr double kLargest = std::numeric_limits<float>::max(), kSmallest = 0x1p-100;
    const Tile u = fp32(AluOp::kAdd, x, 1.0);
    const Tile gap = fresh(DType::kFloat32), lost = fresh(DType::kFloat32), small = fresh(DType::kFloat32);
    emitter_.tensor_scalar(AluOp::kMinimum, kLargest, AluOp::kSubtract, 1.0, gap, u);
    emitter_.scalar_tensor_tensor(AluOp::kMinimum, kLargest, AluOp::kSubtract, lost, x, gap);
    emitter_.scalar_tensor_tensor(AluOp::kMaximum, kSmallest, AluOp::kDivide, small, u, lost,
                                  /*reverse1=*/true);
    // Less 0 - log(u), which is 0 and not -0 where u is 1: -0 stays what it is.
    const Tile dst = result();
    emitter_.tensor_tensor(AluOp::kSubtract, dst, small,
                           fp32(AluOp::kSubtract, fp32(ActivationFunction::kLog, u), 0.0, /*reverse=*/true));
    return dst;
  }

  // Half away from zero: the nearest whole number of |x| + 0.5 below, unless x is whole already.
  Tile round_away(const Tile& x) {
    const Tile size = fp32(AluOp::kAbs, x, 0.0);
    const Tile below = whole_part(size, AluOp::kMod);
    const Tile up = fp32(AluOp::kGreaterEqual, fp32(AluOp::kSubtract, size, below), 0.5);
    return fp32(AluOp::kMultiply, fp32(AluOp::kAdd, below, up), fp32(ActivationFunction::kSign, x));
  }

  Tile cube_root(const Tile& x) {
    const Tile size = fp32(AluOp::kPower, fp32(AluOp::kAbs, x, 0.0), 1.0 / 3.0);
    return rounded(fp32(AluOp::kMultiply, size, fp32(ActivationFunction::kSign, x)));
  }

  Tile convert(const Term& x) {
    const ElementType from = x.element;
    if (graph::is_bool(result_)) return scaled(x, AluOp::kNotEqual, 0.0);
    if (graph::is_float(from) && graph::is_integer(result_)) {
      const Tile dst = result();
      const bool is_cut = is_whole(function_, op_.operands[0]);
      emitter_.tensor_copy(dst, is_cut ? full(x) : whole_part(full(x), AluOp::kFmod));
      return dst;
    }
    if (graph::is_integer(from) && graph::is_integer(result_)) return narrowed(wide_int(x));
    const Tile dst = result();
    emitter_.tensor_copy(dst, full(x));
    return dst;
  }

  Tile unary(const Term& x) {
    const bool is_float = graph::is_float(x.element);
    switch (op_.kind) {
      case OpKind::negate_: {
        if (is_float) return scaled(x, AluOp::kMultiply, -1.0);
        return int_binary(AluOp::kSubtract, Term{.element = result_, .splat = 0.0}, x);
      }
      case OpKind::abs_: {
        if (is_float) return scaled(x, AluOp::kAbs, 0.0);
        const Tile wide = wide_int(x), negative = fresh(DType::kInt32);
        emitter_.tensor_tensor(AluOp::kSubtract, negative, number(DType::kInt32, 0.0), wide);
        const Tile dst = fresh(DType::kInt32);
        emitter_.tensor_tensor(AluOp::kMaximum, dst, wide, negative);
        return narrowed(dst);
      }
      case OpKind::not_:
        if (graph::is_bool(x.element)) return scaled(x, AluOp::kEqual, 0.0);
        return int_binary(AluOp::kBitwiseXor, x, Term{.element = result_, .splat = -1.0});
      case OpKind::convert_: return convert(x);
      case OpKind::floor_: return rounded(whole_part(full(x), AluOp::kMod));
      case OpKind::ceil_: return rounded(ceiling(full(x)));
      case OpKind::round_nearest_even_: return rounded(nearest_even(full(x)));
      case OpKind::sine_: return sine(full(x), false);
      case OpKind::cosine_: return sine(full(x), true);
      case OpKind::exponential_minus_one_: return rounded(expm1(full(x)));
      case OpKind::log_plus_one_: return log1p(in_fp32(full(x)));
      case OpKind::cbrt_: return cube_root(full(x));
      case OpKind::chlo_atan_: return rounded(arctangent(in_fp32(full(x))));
      case OpKind::bitcast_convert_: return same_bits(full(x));
      case OpKind::round_nearest_afz_: return rounded(round_away(full(x)));
      case OpKind::sign_: {
        if (is_float) return activation(ActivationFunction::kSign, x);
        // min(max(x, -1), 1)
        return clamp(Term{.element = x.element, .splat = graph::is_unsigned_integer(x.element) ? 0.0 : -1.0},
                     x, Term{.element = x.element, .splat = 1.0});
      }
      case OpKind::is_finite_: {
        const Tile dst = result();
        emitter_.tensor_scalar(AluOp::kAbs, 0.0, AluOp::kLess, std::numeric_limits<double>::infinity(), dst,
                               full(x));
        return dst;
      }
      case OpKind::composite_: return activation(*activation_of_composite(op_), x);
      default: return activation(*activation_of(op_.kind), x);
    }
  }

  Tile binary(const Term& a, const Term& b) {
    if (op_.kind == OpKind::compare_) return compare(a, b);
    if (const auto op = bitwise_of(op_.kind)) {
      if (graph::is_bool(a.element)) {
        const Tile dst = result();
        emitter_.tensor_tensor(*op, dst, full(a), full(b));
        return dst;
      }
      return int_binary(*op, a, b);
    }
    const AluOp op = *arithmetic_of(op_.kind);
    if (graph::is_integer(a.element) && (op_.kind == OpKind::divide_ || op_.kind == OpKind::remainder_))
      return int_division(a, b, op_.kind == OpKind::remainder_);
    if (graph::is_integer(a.element)) return int_binary(op, a, b);
    const Tile dst = result();
    if (graph::is_bool(a.element)) {  // add is or, multiply is and
      const AluOp boolean =
          op == AluOp::kAdd || op == AluOp::kMaximum ? AluOp::kBitwiseOr : AluOp::kBitwiseAnd;
      emitter_.tensor_tensor(boolean, dst, full(a), full(b));
      return dst;
    }
    float_binary(op, dst, a, b);
    return dst;
  }

  Tile clamp(const Term& low, const Term& x, const Term& high) {
    if (!x.splat && is_exactly_compared(low) && is_exactly_compared(high)) {
      const Tile dst = result();
      emitter_.tensor_scalar(AluOp::kMaximum, *low.splat, AluOp::kMinimum, *high.splat, dst, full(x));
      return dst;
    }
    if (graph::is_float(x.element)) {
      const Tile above = fresh(*device_dtype(result_)), dst = result();
      float_binary(AluOp::kMaximum, above, x, low);
      float_binary(AluOp::kMinimum, dst, Term{.element = result_, .splat = {}, .tile = above}, high);
      return dst;
    }
    const Tile above = int_binary(AluOp::kMaximum, x, low);
    return int_binary(AluOp::kMinimum, Term{.element = result_, .splat = {}, .tile = above}, high);
  }

 private:
  Emitter& emitter_;
  const graph::Function& function_;
  const Op& op_;
  ElementType result_;
  int64_t rows_;
  int64_t columns_;
  std::optional<Tile> into_;
};

bool has_unary(OpKind kind, ElementType from, ElementType to) {
  const bool is_float = graph::is_float(from);
  switch (kind) {
    case OpKind::negate_:
    case OpKind::abs_: return is_float || graph::is_integer(from);
    case OpKind::not_: return !is_float;
    case OpKind::convert_: return true;
    case OpKind::floor_:
    case OpKind::ceil_:
    case OpKind::round_nearest_even_:
    case OpKind::sine_:
    case OpKind::cosine_:
    case OpKind::exponential_minus_one_:
    case OpKind::log_plus_one_:
    case OpKind::cbrt_:
    case OpKind::is_finite_:
    case OpKind::chlo_atan_:
    case OpKind::round_nearest_afz_: return is_float;
    case OpKind::bitcast_convert_:
      return !is_narrowed(from) && !is_narrowed(to) && !graph::is_bool(from) && !graph::is_bool(to) &&
             graph::bit_width(from) == graph::bit_width(to);
    case OpKind::sign_: return is_float || graph::is_integer(from);
    default: return is_float && activation_of(kind).has_value();
  }
}

}  // namespace

DType wide_integer(ElementType element) {
  return device_dtype(element) == DType::kUint32 ? DType::kUint32 : DType::kInt32;
}

Tile copied(Emitter& emitter, const Tile& tile, DType dtype) {
  const Tile copy = emitter.sbuf(tile.rows, tile.columns, dtype, "out");
  emitter.tensor_copy(copy, tile);
  return copy;
}

Tile in_sbuf(Emitter& emitter, const Tile& tile, DType dtype) {
  return tile.space == isa::MemorySpace::kSbuf ? tile : copied(emitter, tile, dtype);
}

Tile narrow_integer(Emitter& emitter, const Tile& wide, ElementType element) {
  if (is_int32(element)) return wide.as(*device_dtype(element));  // wraps: the bits stay
  const auto fresh = [&](DType dtype) { return emitter.sbuf(wide.rows, wide.columns, dtype, "narrow"); };
  const Tile shifted = fresh(DType::kInt32), back = fresh(DType::kInt32);
  Tile counts = emitter.sbuf(wide.rows, 1, DType::kInt32, "narrow");
  emitter.memset(counts, 32 - graph::bit_width(element));
  if (wide.columns > 1) counts = counts.repeated(wide.columns);
  emitter.tensor_tensor(AluOp::kLeftShift, shifted, wide, counts);
  emitter.tensor_tensor(
      graph::is_unsigned_integer(element) ? AluOp::kRightShift : AluOp::kArithmeticRightShift, back, shifted,
      counts);
  const Tile dst = fresh(*device_dtype(element));
  emitter.tensor_copy(dst, back);
  return dst;
}

bool has_elementwise(const graph::Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.empty()) return false;
  for (const auto id : op.operands)
    if (!function.type(id).is_tensor() || function.type(id).quantization() ||
        !device_dtype(function.type(id).element()))
      return false;
  const graph::Type& result = function.type(op.results[0]);
  if (!result.is_tensor() || result.quantization() || !device_dtype(result.element())) return false;
  const ElementType first = function.type(op.operands[0]).element();
  switch (op.kind) {
    case OpKind::select_:
    case OpKind::clamp_:
    case OpKind::compare_: return true;
    default: break;
  }
  if (graph::definition(op.kind).op_class == graph::OpClass::kBinaryElementwise && op.operands.size() == 2) {
    if (bitwise_of(op.kind)) return !graph::is_float(first);
    if (!arithmetic_of(op.kind)) return false;
    if (graph::is_integer(first)) return op.kind != OpKind::power_;
    if (graph::is_bool(first))
      return op.kind == OpKind::add_ || op.kind == OpKind::multiply_ || op.kind == OpKind::maximum_ ||
             op.kind == OpKind::minimum_;
    return true;
  }
  if (op.kind == OpKind::composite_) return activation_of_composite(op).has_value();
  return op.operands.size() == 1 && has_unary(op.kind, first, result.element());
}

Term emit_elementwise(Emitter& emitter, const graph::Function& function, const Op& op,
                      std::span<const Term> operands, int64_t rows, int64_t columns,
                      const std::optional<Tile>& into) {
  const ElementType element = function.type(op.results[0]).element();
  Body body(emitter, function, op, element, rows, columns, into);
  Term result{.element = element, .splat = {}, .tile = {}, .column = false};
  if (op.kind == OpKind::select_)
    result.tile = body.select(operands[0], operands[1], operands[2]);
  else if (op.kind == OpKind::clamp_)
    result.tile = body.clamp(operands[0], operands[1], operands[2]);
  else if (operands.size() == 2)
    result.tile = body.binary(operands[0], operands[1]);
  else
    result.tile = body.unary(operands[0]);
  return result;
}

}  // namespace opentrn::compiler
