// Polynomials and fused multiply-adds, in fp32, a vector at a time.
//
// Where a function is a product of a large and a tiny factor (the left tails of gelu and its kin), the
// exponent of the exponential is carried as an unevaluated sum hi + lo, because an error of half a last
// place in an exponent of 80 would be an error of 80 last places in the result.
//
// Every function gets numbers only: NaN inputs are replaced by 0 on the way in and the results by NaN
// on the way out (run()). Infinities are met by clamping where a formula would multiply 0 by infinity.
#include "numerics/simd_targets.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/activation_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "numerics/activation.h"
#include "numerics/alu.h"
#include "numerics/fused-inl.h"

#ifndef OPENTRN_NUMERICS_ACTIVATION_TABLES_
#define OPENTRN_NUMERICS_ACTIVATION_TABLES_
namespace opentrn::numerics::tables {
// Made by fit_polynomials.py. Lowest power first.

// exp(r) = 1 + r + r^2 p(r), |r| <= ln(2) / 2; relative error 2^-28.3 before rounding.
constexpr float kExp[] = {0.4999999403953552f, 0.1666651964187622f, 0.041668400168418884f,
                          0.00836885068565607f, 0.0013814320554956794f};

// log(1 + f) = f - f^2 / 2 + f^3 p(f), sqrt(1/2) <= 1 + f <= sqrt(2); relative error 2^-30.4 before
// rounding.
constexpr float kLog[] = {0.3333331048488617f,   -0.24999986588954926f, 0.20002226531505585f,
                          -0.16669252514839172f, 0.14218664169311523f,  -0.12384334951639175f,
                          0.11872925609350204f,  -0.11789865791797638f, 0.06915540993213654f};

// tanh(x) = x + x^3 p(x^2), |x| <= 0.65; relative error 2^-31.9 before rounding.
constexpr float kTanh[] = {-0.333333283662796f,   0.13333158195018768f,   -0.05394056439399719f,
                           0.021666347980499268f, -0.008091968484222889f, 0.0020646655466407537f};

// erf(x) = x + x p(x^2), |x| <= 1; relative error 2^-29.7 before rounding.
constexpr float kErf[] = {0.12837916612625122f,   -0.3761262595653534f,  0.11283600330352783f,
                          -0.026854444295167923f, 0.005189535673707724f, -0.0008020842215046287f,
                          7.889122935011983e-05f};

// sin(x) = x + x^3 p(x^2), |x| <= 1; relative error 2^-34.1 before rounding.
constexpr float kSin[] = {-0.1666666716337204f, 0.008333317004144192f, -0.00019836201681755483f,
                          2.6952529879054055e-06f};

// cos(x) = 1 + x^2 p(x^2), |x| <= pi / 2 - 1; relative error 2^-38.7 before rounding.
constexpr float kCos[] = {-0.5f, 0.0416666604578495f, -0.0013888292014598846f, 2.4583427148172632e-05f};

// arctan(x) = x + x^3 p(x^2), |x| <= 1; relative error 2^-31.4 before rounding.
constexpr float kAtan[] = {-0.333333283662796f,   0.1999969333410263f,   -0.14280131459236145f,
                           0.11060246080160141f,  -0.0881885513663292f,  0.06759587675333023f,
                           -0.04494667053222656f, 0.022760534659028053f, -0.007422729395329952f,
                           0.0011348967673256993f};

// P(Z <= x) = 1 / 2 + x p(x^2), |x| <= 1; relative error 2^-31.8 before rounding.
constexpr float kGeluNear[] = {0.3989422917366028f,     -0.06649035960435867f,   0.009973331354558468f,
                               -0.0011863530380651355f, 0.00011351265857229009f, -7.664679287699983e-06f};

// d/dx (x P(Z <= x)) = 1 / 2 + x p(x^2), |x| <= 1; relative error 2^-33.9 before rounding.
constexpr float kGeluDxNear[] = {0.7978845834732056f,   -0.26596152782440186f,  0.05984124168753624f,
                                 -0.00949801504611969f, 0.0011525759473443031f, -0.00011067507875850424f,
                                 7.296988769667223e-06f};

// P(Z > a) exp(a^2 / 2) = t p(t - 0.5625), t = 1 / (1 + 0.5 a), 0 <= a <= 15.0; relative error 2^-28.3
// before rounding.
constexpr float kTail[] = {0.35710594058036804f,  0.33688676357269287f,   0.030215060338377953f,
                           -0.1439353972673416f,  0.025912191718816757f,  0.08138559013605118f,
                           -0.0746798887848854f,  -0.005777488462626934f, 0.07701338827610016f,
                           -0.06782861799001694f, -0.0298266913741827f,   0.06811176240444183f};
constexpr float kTailScale = 0.5f;
constexpr float kTailMiddle = 0.5625f;
constexpr float kTailPast = 15.0f;  // P(Z > 15) is below half the smallest fp32 number

}  // namespace opentrn::numerics::tables
#endif

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics {
namespace HWY_NAMESPACE {

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using V = hn::Vec<DF>;

HWY_ATTR HWY_INLINE V constant(float x) { return hn::Set(DF(), x); }
HWY_ATTR HWY_INLINE V fma(V a, V b, V c) { return fused(DF(), a, b, c); }
HWY_ATTR HWY_INLINE V clamp(V x, float low, float high) {
  return hn::Min(hn::Max(x, constant(low)), constant(high));
}

// Horner's rule, highest power first into the fma chain.
template <size_t kCount>
HWY_ATTR HWY_INLINE V polynomial(V x, const float (&coefficients)[kCount]) {
  V sum = constant(coefficients[kCount - 1]);
  for (size_t i = kCount - 1; i > 0; --i) sum = fma(sum, x, constant(coefficients[i - 1]));
  return sum;
}

// An unevaluated sum with |lo| at most about one last place of hi.
struct Pair {
  V hi;
  V lo;
};

HWY_ATTR HWY_INLINE Pair product(V a, V b) {
  const V hi = hn::Mul(a, b);
  return {hi, fused(DF(), a, b, hn::Neg(hi))};
}

// mantissa * first * second, the factors powers of two of which neither overflows: a product with the
// mantissa, before the scaling, rounds once more only if the result is subnormal.
struct Scaled {
  V mantissa;
  V first;
  V second;

  HWY_ATTR HWY_INLINE V value() const { return hn::Mul(hn::Mul(mantissa, first), second); }
  HWY_ATTR HWY_INLINE V times(V factor) const {
    return hn::Mul(hn::Mul(hn::Mul(mantissa, factor), first), second);
  }
};

// exp(x) without its power of two.
struct ReducedExp {
  V mantissa;
  V shifted;  // 1.5 * 2^23 plus the exponent, which is in the low bits
  V exponent;
};
constexpr float kShift = 0x1.8p23f;

HWY_ATTR HWY_INLINE ReducedExp reduced_exp(V bounded, V low) {
  const V magic = constant(kShift);
  const V shifted = fma(bounded, constant(1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = fma(n, constant(-0.693145752f), bounded);  // 15 bits of ln 2: exact for |n| < 2^9
  r = fma(n, constant(-1.42860677e-6f), hn::Add(r, low));
  const V e = fma(hn::Mul(r, r), polynomial(r, tables::kExp), r);
  return {hn::Add(constant(1.0f), e), shifted, n};
}

HWY_ATTR HWY_INLINE V bounded_exponent(V x) { return clamp(x, -110.0f, 95.0f); }

// 2^n in two factors, each normal; only the second product can round.
HWY_ATTR HWY_INLINE Scaled scaled(const ReducedExp& e) {
  const DF d;
  const DI di;
  const auto exponent = hn::Sub(hn::BitCast(di, e.shifted), hn::BitCast(di, constant(kShift)));
  const auto half = hn::ShiftRight<1>(exponent);
  const auto bias = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(exponent, half), bias)));
  return {e.mantissa, first, second};
}

// exp(x.hi + x.lo); overflow gives infinity, underflow goes through the subnormals to 0.
HWY_ATTR HWY_INLINE Scaled scaled_exp(Pair x) { return scaled(reduced_exp(bounded_exponent(x.hi), x.lo)); }

HWY_ATTR HWY_INLINE V exp_of(Pair x) { return scaled_exp(x).value(); }
// Below it exp() is less than half the smallest number, and so 0. A processor takes a hundred times as long
// for a result that underflows as for another one, and masked scores of attention are all minus infinity.
constexpr float kExpIsZeroBelow = -104.0f;

HWY_ATTR HWY_INLINE V exp_of(V x) {
  const DF d;
  const auto vanishes = hn::Lt(x, constant(kExpIsZeroBelow));
  const V bounded = hn::IfThenZeroElse(vanishes, hn::Min(x, constant(95.0f)));
  const ReducedExp e = reduced_exp(bounded, hn::Zero(d));
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const V value{_mm512_scalef_ps(e.mantissa.raw, e.exponent.raw)};  // rounds once too
#else
  const V value = scaled(e).value();
#endif
  return hn::IfThenZeroElse(vanishes, value);
}

// exp(-x^2 * scale), scale a power of two, |x| <= 15.
HWY_ATTR HWY_INLINE Scaled exp_minus_square(V x, float scale) {
  const Pair square = product(x, x);
  const V s = constant(-scale);
  return scaled_exp(Pair{hn::Mul(square.hi, s), hn::Mul(square.lo, s)});
}

// log(x) for x >= 0; log(0) is -infinity.
HWY_ATTR HWY_INLINE V log_of(V x) {
  const DF d;
  const DI di;
  const auto subnormal = hn::Lt(x, constant(0x1p-126f));
  const V normal = hn::IfThenElse(subnormal, hn::Mul(x, constant(0x1p24f)), x);
  // The exponent that puts the mantissa into [sqrt(1/2), sqrt(2)).
  const auto bits = hn::BitCast(di, normal);
  const auto from_sqrt_half = hn::Sub(bits, hn::Set(di, 0x3f3504f3));
  const auto exponent = hn::ShiftRight<23>(from_sqrt_half);
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  V n = hn::ConvertTo(d, exponent);
  n = hn::IfThenElse(subnormal, hn::Sub(n, constant(24.0f)), n);
  const V f = hn::Sub(m, constant(1.0f));
  const V f2 = hn::Mul(f, f);
  V tail = hn::Mul(hn::Mul(f2, f), polynomial(f, tables::kLog));
  tail = fma(n, constant(-2.12194440e-4f), tail);
  tail = fma(f2, constant(-0.5f), tail);
  const V result = fma(n, constant(0.693359375f), hn::Add(f, tail));
  const V infinity = constant(std::numeric_limits<float>::infinity());
  const V at_ends = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), result);
  return hn::IfThenElse(hn::Eq(x, infinity), infinity, at_ends);
}

// log(1 + x) for 0 <= x <= 1: what 1 + x loses is put back in first order.
HWY_ATTR HWY_INLINE V log1p_of(V x) {
  const V one = constant(1.0f);
  const V u = hn::Add(one, x);
  const V lost = hn::Sub(x, hn::Sub(u, one));
  return hn::Add(log_of(u), hn::Div(lost, u));
}

// 1 / (1 + exp(-x)) with a small relative error on both sides.
HWY_ATTR HWY_INLINE V sigmoid_of(Pair x) {
  const DF d;
  const auto negative = hn::Lt(x.hi, hn::Zero(d));
  const V e = exp_of(Pair{hn::Neg(hn::Abs(x.hi)), hn::IfThenElse(negative, x.lo, hn::Neg(x.lo))});
  const V one = constant(1.0f);
  return hn::Div(hn::IfThenElse(negative, e, one), hn::Add(one, e));
}

// factor / (1 + exp(-x)): the factor keeps a subnormal sigmoid from losing places before the product.
HWY_ATTR HWY_INLINE V gated(V factor, Pair x) {
  const DF d;
  const auto negative = hn::Lt(x.hi, hn::Zero(d));
  const Scaled e = scaled_exp(Pair{hn::Neg(hn::Abs(x.hi)), hn::IfThenElse(negative, x.lo, hn::Neg(x.lo))});
  return hn::Div(hn::IfThenElse(negative, e.times(factor), factor), hn::Add(constant(1.0f), e.value()));
}

HWY_ATTR HWY_INLINE V sigmoid_of(V x) { return sigmoid_of(Pair{x, hn::Zero(DF())}); }

// R(a) of P(Z > a) = exp(-a^2 / 2) R(a), 0 <= a <= kTailPast.
HWY_ATTR HWY_INLINE V tail_factor(V a) {
  const V one = constant(1.0f);
  const V t = hn::Div(one, fma(a, constant(tables::kTailScale), one));
  return hn::Mul(t, polynomial(hn::Sub(t, constant(tables::kTailMiddle)), tables::kTail));
}

HWY_ATTR HWY_INLINE V tanh_of(V x) {
  const V a = hn::Abs(x);
  const V x2 = hn::Mul(x, x);
  const V small = fma(hn::Mul(x, x2), polynomial(x2, tables::kTanh), x);
  const V e = exp_of(clamp(hn::Add(a, a), 0.0f, 90.0f));
  const V one = constant(1.0f);
  const V large = hn::Sub(one, hn::Div(constant(2.0f), hn::Add(e, one)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, constant(0.65f)), small, large), x);  // of both: -0 + 0 is 0
}

HWY_ATTR HWY_INLINE V erf_of(V x) {
  const V a = hn::Min(hn::Abs(x), constant(10.0f));
  const V x2 = hn::Mul(x, x);
  const V small = fma(x, polynomial(x2, tables::kErf), x);
  const V tail = exp_minus_square(a, 1.0f).times(tail_factor(hn::Mul(a, constant(1.41421356f))));
  const V large = fma(constant(-2.0f), tail, constant(1.0f));
  return hn::IfThenElse(hn::Lt(a, constant(1.0f)), small, hn::CopySign(large, x));
}

// sqrt(2 / pi) and sqrt(2 / pi) * 0.044715, doubled, in two parts each.
constexpr float kTanhLinear = 1.59576912f, kTanhLinearLow = -4.53406805e-8f;
constexpr float kTanhCubic = 0.0713548139f, kTanhCubicLow = 2.39883247e-9f;

// 2 sqrt(2 / pi) (x + 0.044715 x^3), |x| <= 30.
HWY_ATTR HWY_INLINE Pair tanh_argument(V x) {
  const Pair square = product(x, x);
  const V linear = constant(kTanhLinear), cubic = constant(kTanhCubic);
  const Pair term = product(cubic, square.hi);
  const V sum = hn::Add(linear, term.hi);
  // Knuth's exact error of the addition.
  const V virtual_term = hn::Sub(sum, linear);
  const V error = hn::Add(hn::Sub(linear, hn::Sub(sum, virtual_term)), hn::Sub(term.hi, virtual_term));
  V low = hn::Add(error, hn::Add(term.lo, constant(kTanhLinearLow)));
  low = fma(cubic, square.lo, fma(constant(kTanhCubicLow), square.hi, low));
  const Pair result = product(x, sum);
  return {result.hi, fma(x, low, result.lo)};
}

constexpr float kSigmoidScale = 1.702f;
constexpr float kSigmoidScaleLow = static_cast<float>(1.702 - static_cast<double>(1.702f));

HWY_ATTR HWY_INLINE Pair sigmoid_argument(V x) {
  const Pair p = product(x, constant(kSigmoidScale));
  return {p.hi, fma(x, constant(kSigmoidScaleLow), p.lo)};
}

// s (1 + z (1 - s)) for s = sigmoid(z): the derivative of x sigmoid(c x) at z = c x.
HWY_ATTR HWY_INLINE V gated_derivative(Pair z) {
  const V one = constant(1.0f);
  // 1 - s is sigmoid(-z), which keeps its relative error where s is close to 1.
  const V rest = sigmoid_of(Pair{hn::Neg(z.hi), hn::Neg(z.lo)});
  return gated(fma(z.hi, rest, one), z);
}

struct Copy {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return x; }
};
struct Square {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return hn::Mul(x, x); }
};
struct Sigmoid {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return sigmoid_of(x); }
};
struct Relu {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return hn::IfThenElseZero(hn::Gt(x, hn::Zero(DF())), x); }
};
struct Prelu {
  static HWY_ATTR HWY_INLINE V apply(V x, V slope) {
    return hn::IfThenElse(hn::Ge(x, hn::Zero(DF())), x, hn::Mul(slope, x));
  }
};
struct Gelu {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    const V a = hn::Min(hn::Abs(x), constant(tables::kTailPast));
    const Scaled e = exp_minus_square(a, 0.5f);
    const V factor = tail_factor(a);
    const V left = e.times(hn::Mul(hn::Neg(a), factor));
    const V right = hn::Mul(x, hn::Sub(constant(1.0f), e.times(factor)));
    const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), left, right);
    const V near = hn::Mul(x, fma(x, polynomial(hn::Mul(x, x), tables::kGeluNear), constant(0.5f)));
    return hn::IfThenElse(hn::Lt(a, constant(1.0f)), near, far);
  }
};
struct GeluDx {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    const V a = hn::Min(hn::Abs(x), constant(tables::kTailPast));
    // exp(-a^2 / 2) (R(a) - a / sqrt(2 pi)) left of 0; one minus that right of it.
    const V left = exp_minus_square(a, 0.5f).times(fma(a, constant(-0.398942280f), tail_factor(a)));
    const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), left, hn::Sub(constant(1.0f), left));
    const V near = fma(x, polynomial(hn::Mul(x, x), tables::kGeluDxNear), constant(0.5f));
    return hn::IfThenElse(hn::Lt(a, constant(1.0f)), near, far);
  }
};
struct GeluApprxTanh {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    // 0.5 (1 + tanh(u)) is sigmoid(2 u).
    return gated(hn::Max(x, constant(-30.0f)), tanh_argument(clamp(x, -30.0f, 30.0f)));
  }
};
struct GeluApprxSigmoid {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    return gated(hn::Max(x, constant(-200.0f)), sigmoid_argument(clamp(x, -200.0f, 200.0f)));
  }
};
struct GeluApprxSigmoidDx {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    return gated_derivative(sigmoid_argument(clamp(x, -200.0f, 200.0f)));
  }
};
struct Silu {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    return gated(hn::Max(x, constant(-200.0f)), Pair{x, hn::Zero(DF())});
  }
};
struct SiluDx {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    return gated_derivative(Pair{clamp(x, -200.0f, 200.0f), hn::Zero(DF())});
  }
};
struct Tanh {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return tanh_of(x); }
};
struct Softplus {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    const V e = exp_of(hn::Neg(hn::Abs(x)));
    return hn::Add(hn::Max(x, hn::Zero(DF())), log1p_of(e));
  }
};
struct Mish {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    // tanh(log(1 + exp(x))) is n / (n + 2) for n = e (e + 2), e = exp(x); right of 0 both are divided by e^2.
    const auto negative = hn::Lt(x, hn::Zero(DF()));
    const Scaled scaled = scaled_exp(Pair{hn::Neg(hn::Abs(x)), hn::Zero(DF())});
    const V e = scaled.value();
    const V two = constant(2.0f);
    const V left = hn::Add(e, two);  // without its factor e
    const V right = fma(e, two, constant(1.0f));
    const V numerator = hn::IfThenElse(negative, scaled.times(hn::Mul(hn::Max(x, constant(-200.0f)), left)),
                                       hn::Mul(x, right));
    const V denominator = hn::IfThenElse(negative, fma(e, left, two), fma(hn::Mul(two, e), e, right));
    return hn::Div(numerator, denominator);
  }
};
struct Erf {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return erf_of(x); }
};
struct ErfDx {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    return exp_minus_square(clamp(x, -15.0f, 15.0f), 1.0f).times(constant(1.12837917f));
  }
};
struct Exp {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return exp_of(x); }
};
struct Sign {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    const V zero = hn::Zero(DF()), one = constant(1.0f);
    return hn::Sub(hn::IfThenElseZero(hn::Gt(x, zero), one), hn::IfThenElseZero(hn::Lt(x, zero), one));
  }
};
struct Abs {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return hn::Abs(x); }
};
struct Log {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    const V result = log_of(hn::Abs(x));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), canonical_nan(DF()), result);
  }
};
struct Sin {
  // 0 <= x <= pi / 2. Past 1 by the cosine of what is left to pi / 2, which is 1 there to the last place.
  static HWY_ATTR HWY_INLINE V of_quarter(V x) {
    const V x2 = hn::Mul(x, x);
    const V sine = fma(hn::Mul(x, x2), polynomial(x2, tables::kSin), x);
    const V left = hn::Add(hn::Sub(constant(1.57079637f), x), constant(-4.37113883e-8f));
    const V left2 = hn::Mul(left, left);
    const V cosine = fma(left2, polynomial(left2, tables::kCos), constant(1.0f));
    return hn::IfThenElse(hn::Gt(x, constant(1.0f)), cosine, sine);
  }
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    const V a = hn::Abs(x);
    // The distance to pi, exact to fp32's last place near it.
    const V beyond = hn::Sub(hn::Sub(a, constant(3.14159274f)), constant(-8.74227766e-8f));
    // Past pi the hardware goes on with the cubic d^3 / 6 - d.
    const V cubic = hn::Mul(beyond, fma(hn::Mul(beyond, constant(1.0f / 6.0f)), beyond, constant(-1.0f)));
    const V near = hn::IfThenElse(hn::Gt(a, constant(1.57079633f)), hn::Neg(beyond), a);
    const V result = hn::IfThenElse(hn::Gt(a, constant(3.14159274f)), cubic, of_quarter(near));
    return hn::Xor(result, hn::And(x, hn::SignBit(DF())));
  }
};
struct Arctan {
  static HWY_ATTR HWY_INLINE V apply(V x, V) {
    const V a = hn::Abs(x);
    const auto large = hn::Gt(a, constant(1.0f));
    const V z = hn::IfThenElse(large, hn::Div(constant(1.0f), a), a);
    const V y = hn::Mul(z, z);
    const V angle = fma(hn::Mul(z, y), polynomial(y, tables::kAtan), z);
    // pi / 2 in two parts.
    const V complement = hn::Sub(constant(1.57079637f), hn::Add(angle, constant(4.37113883e-8f)));
    return hn::CopySign(hn::IfThenElse(large, complement, angle), x);
  }
};
struct Sqrt {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return hn::Sqrt(x); }
};
struct Rsqrt {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return hn::Div(constant(1.0f), hn::Sqrt(x)); }
};
struct Reciprocal {
  static HWY_ATTR HWY_INLINE V apply(V x, V) { return hn::Div(constant(1.0f), x); }
};

// Whether a function may be given NaN, whatever it makes of it, and makes no NaN of a number.
template <class Function>
inline constexpr bool kNeedsNoGuard = false;
template <>
inline constexpr bool kNeedsNoGuard<Exp> = true;

template <class Function>
HWY_ATTR HWY_INLINE V guarded(V x, V param) {
  const DF d;
  const auto number = hn::Eq(x, x);
  if constexpr (kNeedsNoGuard<Function>)
    return hn::IfThenElse(number, Function::apply(x, param), canonical_nan(d));
  const V result = canonical(d, Function::apply(hn::IfThenElseZero(number, x), param));
  return hn::IfThenElse(number, result, canonical_nan(d));
}

// Rows of a function: one loop for it alone, and one for it behind a product and a sum.
struct ActivatedRows {
  FloatRows in;
  MutableFloatRows out;
  size_t rows;
  size_t n;
  RowScalars param;
  RowScalars scale;
  RowScalars bias;

  template <class Function, bool kAffine>
  HWY_ATTR void run() const {
    if (kAffine && n == 1 && rows > 1) return run_column<Function>();
    for (size_t r = 0; r < rows; ++r) {
      const float* const from = in.data + r * in.pitch;
      float* const to = out.data + r * out.pitch;
      if constexpr (kAffine)
        run_row<Function, true>(from, to, n, 0.0f, {scale.data[r * scale.step], bias.data[r * bias.step]});
      else
        run_row<Function, false>(from, to, n, param.data[r * param.step], {});
    }
  }

  // Rows of one number: as many at once as a vector has lanes.
  template <class Function>
  HWY_ATTR void run_column() const {
    const DF d;
    const size_t lanes = hn::Lanes(d);
    constexpr size_t kLanesMax = HWY_MAX_BYTES / sizeof(float);
    HWY_ALIGN float x[kLanesMax] = {}, factor[kLanesMax] = {}, summand[kLanesMax] = {};
    for (size_t begin = 0; begin < rows; begin += lanes) {
      const size_t count = std::min(lanes, rows - begin);
      for (size_t i = 0; i < count; ++i) {
        const size_t r = begin + i;
        x[i] = in.data[r * in.pitch];
        factor[i] = scale.data[r * scale.step];
        summand[i] = bias.data[r * bias.step];
      }
      const V value = hn::Add(hn::Mul(hn::Load(d, x), hn::Load(d, factor)), hn::Load(d, summand));
      hn::Store(guarded<Function>(value, constant(0.0f)), d, x);
      for (size_t i = 0; i < count; ++i) out.data[(begin + i) * out.pitch] = x[i];
    }
  }

  template <class Function, bool kAffine>
  static HWY_ATTR HWY_INLINE void run_row(const float* in, float* out, size_t n, float param, Affine affine) {
    const DF d;
    const size_t lanes = hn::Lanes(d);
    const V p = constant(param), scale = constant(affine.scale), bias = constant(affine.bias);
    const auto value = [&](V x) HWY_ATTR {
      if constexpr (kAffine) x = hn::Add(hn::Mul(x, scale), bias);
      return guarded<Function>(x, p);
    };
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(value(hn::LoadU(d, in + i)), d, out + i);
    if (i == n) return;
    HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
    for (size_t j = 0; i + j < n; ++j) rest[j] = in[i + j];
    hn::Store(value(hn::Load(d, rest)), d, rest);
    for (size_t j = 0; i + j < n; ++j) out[i + j] = rest[j];
  }
};

template <bool kAffine>
HWY_ATTR void visit(ActivationFunction function, const ActivatedRows& row) {
  switch (function) {
    case ActivationFunction::kCopy: return row.run<Copy, kAffine>();
    case ActivationFunction::kSquare: return row.run<Square, kAffine>();
    case ActivationFunction::kSigmoid: return row.run<Sigmoid, kAffine>();
    case ActivationFunction::kRelu: return row.run<Relu, kAffine>();
    case ActivationFunction::kPrelu: return row.run<Prelu, kAffine>();
    case ActivationFunction::kGelu: return row.run<Gelu, kAffine>();
    case ActivationFunction::kGeluDx: return row.run<GeluDx, kAffine>();
    case ActivationFunction::kGeluApprxTanh: return row.run<GeluApprxTanh, kAffine>();
    case ActivationFunction::kGeluApprxSigmoid: return row.run<GeluApprxSigmoid, kAffine>();
    case ActivationFunction::kGeluApprxSigmoidDx: return row.run<GeluApprxSigmoidDx, kAffine>();
    case ActivationFunction::kSilu: return row.run<Silu, kAffine>();
    case ActivationFunction::kSiluDx: return row.run<SiluDx, kAffine>();
    case ActivationFunction::kTanh: return row.run<Tanh, kAffine>();
    case ActivationFunction::kSoftplus: return row.run<Softplus, kAffine>();
    case ActivationFunction::kMish: return row.run<Mish, kAffine>();
    case ActivationFunction::kErf: return row.run<Erf, kAffine>();
    case ActivationFunction::kErfDx: return row.run<ErfDx, kAffine>();
    case ActivationFunction::kExp: return row.run<Exp, kAffine>();
    case ActivationFunction::kSign: return row.run<Sign, kAffine>();
    case ActivationFunction::kAbs: return row.run<Abs, kAffine>();
    case ActivationFunction::kLog: return row.run<Log, kAffine>();
    case ActivationFunction::kSin: return row.run<Sin, kAffine>();
    case ActivationFunction::kArctan: return row.run<Arctan, kAffine>();
    case ActivationFunction::kSqrt: return row.run<Sqrt, kAffine>();
    case ActivationFunction::kRsqrt: return row.run<Rsqrt, kAffine>();
    case ActivationFunction::kReciprocal: return row.run<Reciprocal, kAffine>();
  }
}

HWY_ATTR void ActivateSimd(ActivationFunction function, FloatRows in, MutableFloatRows out, size_t rows,
                           size_t n, RowScalars param) {
  visit<false>(function, {in, out, rows, n, param, {}, {}});
}
HWY_ATTR void ActivateAffineSimd(ActivationFunction function, RowScalars scale, RowScalars bias, FloatRows in,
                                 MutableFloatRows out, size_t rows, size_t n) {
  visit<true>(function, {in, out, rows, n, {}, scale, bias});
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opentrn::numerics {

HWY_EXPORT(ActivateSimd);
HWY_EXPORT(ActivateAffineSimd);

void activate(ActivationFunction function, const float* in, float* out, size_t n, float param) {
  activate(function, {in, n}, {out, n}, 1, n, {&param, 0});
}

void activate(ActivationFunction function, Affine affine, const float* in, float* out, size_t n) {
  activate(function, {&affine.scale, 0}, {&affine.bias, 0}, {in, n}, {out, n}, 1, n);
}

void activate(ActivationFunction function, FloatRows in, MutableFloatRows out, size_t rows, size_t n,
              RowScalars param) {
  if (function != ActivationFunction::kCopy)
    return HWY_DYNAMIC_DISPATCH(ActivateSimd)(function, in, out, rows, n, param);
  for (size_t r = 0; r < rows; ++r) {  // bits, NaN payloads included
    const float* const from = in.data + r * in.pitch;
    float* const to = out.data + r * out.pitch;
    if (from != to) std::copy_n(from, n, to);
  }
}

void activate(ActivationFunction function, RowScalars scale, RowScalars bias, FloatRows in,
              MutableFloatRows out, size_t rows, size_t n) {
  if (function != ActivationFunction::kCopy)
    return HWY_DYNAMIC_DISPATCH(ActivateAffineSimd)(function, scale, bias, in, out, rows, n);
  alu_tensor_scalar(AluOp::kMultiply, in, scale, false, out, rows, n);
  alu_tensor_scalar(AluOp::kAdd, out, bias, false, out, rows, n);
}

}  // namespace opentrn::numerics
#endif  // HWY_ONCE
