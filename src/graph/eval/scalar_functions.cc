#include "graph/eval/scalar_functions.h"

#include <bit>
#include <cmath>
#include <limits>

#include "graph/eval/rounding.h"
#include "graph/eval/special_functions.h"

namespace opentrn::graph::eval {

namespace {

template <typename T>
constexpr bool kIsInteger = std::is_same_v<T, Signed> || std::is_same_v<T, Unsigned>;
template <typename T>
constexpr bool kIsReal = std::is_same_v<T, Real>;
template <typename T>
constexpr bool kIsComplex = std::is_same_v<T, Complex>;
template <typename T>
constexpr bool kIsBool = std::is_same_v<T, Bool>;

// ---- Arithmetic. Integers wrap: they are added as unsigned numbers.

template <typename T>
T add(T a, T b, ElementType) {
  if constexpr (kIsBool<T>)
    return a | b;
  else if constexpr (kIsInteger<T>)
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  else
    return a + b;
}

template <typename T>
T subtract(T a, T b, ElementType) {
  if constexpr (kIsBool<T>)
    return a ^ b;
  else if constexpr (kIsInteger<T>)
    return static_cast<T>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b));
  else
    return a - b;
}

template <typename T>
T multiply(T a, T b, ElementType type) {
  if constexpr (kIsBool<T>) {
    return a & b;
  } else if constexpr (kIsInteger<T>) {
    return static_cast<T>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  } else if constexpr (kIsComplex<T>) {
    // The textbook product: an infinity times a complex number may have NaN parts.
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return a * b;
  }
}

// By zero: all ones (-1, or the largest unsigned number), as XLA does; the spec leaves it open.
template <typename T>
T divide(T a, T b, ElementType type) {
  if constexpr (std::is_same_v<T, Signed>) {
    if (b == 0) return -1;
    if (b == -1) return subtract<T>(0, a, type);
    return a / b;
  } else if constexpr (std::is_same_v<T, Unsigned>) {
    return b == 0 ? ~Unsigned{0} : a / b;
  } else {
    return a / b;
  }
}

// By zero: the dividend.
template <typename T>
T remainder(T a, T b, ElementType) {
  if constexpr (kIsReal<T>) {
    return std::fmod(a, b);
  } else if constexpr (std::is_same_v<T, Signed>) {
    if (b == 0) return a;
    return b == -1 ? 0 : a % b;
  } else {
    return b == 0 ? a : a % b;
  }
}

template <typename T>
T negate(T a, ElementType) {
  if constexpr (kIsInteger<T>)
    return static_cast<T>(Unsigned{0} - static_cast<Unsigned>(a));
  else
    return -a;
}

template <typename T>
T absolute(T a, ElementType type) {
  if constexpr (std::is_same_v<T, Signed>)
    return a < 0 ? negate(a, type) : a;
  else if constexpr (kIsReal<T>)
    return std::fabs(a);
  else
    return a;
}

template <typename T>
T sign(T a, ElementType) {
  if constexpr (kIsReal<T>) {
    return std::isnan(a) || a == 0 ? a : std::copysign(1.0, a);
  } else if constexpr (kIsComplex<T>) {
    if (std::isnan(a.real()) || std::isnan(a.imag())) {
      constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
      return {kNan, kNan};
    }
    if (a == Complex{}) return {};
    return a / std::abs(a);
  } else {
    return a > 0 ? 1 : a == 0 ? 0 : static_cast<T>(-1);
  }
}

// NaN wins; +0 is larger than -0. Complex numbers compare by real part, then imaginary part.
template <typename T>
T maximum(T a, T b, ElementType) {
  if constexpr (kIsReal<T>) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  } else if constexpr (kIsComplex<T>) {
    const bool first = a.real() == b.real() ? a.imag() > b.imag() : a.real() > b.real();
    return first ? a : b;
  } else {
    return a > b ? a : b;
  }
}

template <typename T>
T minimum(T a, T b, ElementType) {
  if constexpr (kIsReal<T>) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  } else if constexpr (kIsComplex<T>) {
    const bool first = a.real() == b.real() ? a.imag() < b.imag() : a.real() < b.real();
    return first ? a : b;
  } else {
    return a < b ? a : b;
  }
}

template <typename T>
T power(T base, T exponent, ElementType type) {
  if constexpr (kIsReal<T>) {
    return std::pow(base, exponent);
  } else if constexpr (kIsComplex<T>) {
    if (base == Complex{}) return exponent == Complex{} ? Complex{1} : Complex{};
    return std::pow(base, exponent);
  } else {
    if constexpr (std::is_same_v<T, Signed>) {
      if (exponent < 0) {
        if (base == 1) return 1;
        return base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
      }
    }
    T result = 1;
    for (auto rest = static_cast<Unsigned>(exponent); rest != 0; rest >>= 1) {
      if (rest & 1) result = multiply<T>(result, base, type);
      base = multiply<T>(base, base, type);
    }
    return result;
  }
}

template <typename T>
T square(T a, ElementType type) {
  return multiply<T>(a, a, type);
}

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

// The upper half of the product of twice the width.
template <typename T>
T multiply_high(T a, T b, ElementType type) {
  using Wide = std::conditional_t<std::is_same_v<T, Signed>, Int128, UInt128>;
  return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> bit_width(type));
}

// ---- Bits.

template <typename T>
T bit_and(T a, T b, ElementType) {
  return a & b;
}
template <typename T>
T bit_or(T a, T b, ElementType) {
  return a | b;
}
template <typename T>
T bit_xor(T a, T b, ElementType) {
  return a ^ b;
}
template <typename T>
T bit_not(T a, ElementType) {
  if constexpr (kIsBool<T>)
    return a ^ 1;
  else
    return ~a;
}

// Shifts by the width or more move every bit out, as in XLA; a negative amount counts as a large one.
template <typename T>
bool shifts_out(T amount, ElementType type) {
  return wrap_unsigned(bit_width(type), static_cast<Unsigned>(amount)) >=
         static_cast<Unsigned>(bit_width(type));
}

template <typename T>
T shift_left(T a, T amount, ElementType type) {
  return shifts_out(amount, type) ? 0 : static_cast<T>(static_cast<Unsigned>(a) << amount);
}

template <typename T>
T shift_right_logical(T a, T amount, ElementType type) {
  if (shifts_out(amount, type)) return 0;
  return static_cast<T>(wrap_unsigned(bit_width(type), static_cast<Unsigned>(a)) >> amount);
}

template <typename T>
T shift_right_arithmetic(T a, T amount, ElementType type) {
  const int bits = bit_width(type);
  const Signed value = wrap_signed(bits, static_cast<Signed>(a));
  return static_cast<T>(value >> (shifts_out(amount, type) ? bits - 1 : static_cast<Signed>(amount)));
}

template <typename T>
T count_leading_zeros(T a, ElementType type) {
  const int bits = bit_width(type);
  return static_cast<T>(std::countl_zero(wrap_unsigned(bits, static_cast<Unsigned>(a))) - (64 - bits));
}

template <typename T>
T population_count(T a, ElementType type) {
  return static_cast<T>(std::popcount(wrap_unsigned(bit_width(type), static_cast<Unsigned>(a))));
}

// ---- Real and complex functions.

#define OPENTRN_STD_FUNCTION(NAME, FUNCTION) \
  template <typename T>                      \
  T NAME(T a, ElementType) {                 \
    return FUNCTION(a);                      \
  }
OPENTRN_STD_FUNCTION(cosine, std::cos)
OPENTRN_STD_FUNCTION(sine, std::sin)
OPENTRN_STD_FUNCTION(tangent, std::tan)
OPENTRN_STD_FUNCTION(hyperbolic_tangent, std::tanh)
OPENTRN_STD_FUNCTION(hyperbolic_cosine, std::cosh)
OPENTRN_STD_FUNCTION(hyperbolic_sine, std::sinh)
OPENTRN_STD_FUNCTION(exponential, std::exp)
OPENTRN_STD_FUNCTION(logarithm, std::log)
OPENTRN_STD_FUNCTION(square_root, std::sqrt)
OPENTRN_STD_FUNCTION(arc_cosine, std::acos)
OPENTRN_STD_FUNCTION(arc_sine, std::asin)
OPENTRN_STD_FUNCTION(arc_tangent, std::atan)
OPENTRN_STD_FUNCTION(area_cosine, std::acosh)
OPENTRN_STD_FUNCTION(area_sine, std::asinh)
OPENTRN_STD_FUNCTION(area_tangent, std::atanh)
OPENTRN_STD_FUNCTION(ceiling, std::ceil)
OPENTRN_STD_FUNCTION(floor_of, std::floor)
OPENTRN_STD_FUNCTION(round_away, std::round)
OPENTRN_STD_FUNCTION(round_even, std::nearbyint)
OPENTRN_STD_FUNCTION(error_function, std::erf)
OPENTRN_STD_FUNCTION(complementary_error, std::erfc)
OPENTRN_STD_FUNCTION(log_gamma_of, log_gamma)
OPENTRN_STD_FUNCTION(digamma_of, digamma)
OPENTRN_STD_FUNCTION(bessel_i1e_of, bessel_i1e)
OPENTRN_STD_FUNCTION(inverse_error, inverse_erf)
#undef OPENTRN_STD_FUNCTION

template <typename T>
T reciprocal_root(T a, ElementType) {
  return T{1} / std::sqrt(a);
}

template <typename T>
T exponential_minus_one(T a, ElementType) {
  if constexpr (kIsReal<T>) {
    return std::expm1(a);
  } else {
    const double half_sine = std::sin(a.imag() / 2);
    const double imaginary = a.imag() == 0 ? a.imag() : std::exp(a.real()) * std::sin(a.imag());
    return {std::expm1(a.real()) * std::cos(a.imag()) - 2 * half_sine * half_sine, imaginary};
  }
}

template <typename T>
T log_plus_one(T a, ElementType) {
  if constexpr (kIsReal<T>) {
    return std::log1p(a);
  } else {
    // |1 + z|^2 - 1 without cancellation for small z; far from there the plain logarithm.
    const double x = a.real();
    const double y = a.imag();
    if (std::fabs(x) > 0.5 || std::fabs(y) > 0.5) return std::log(Complex{1 + x, y});
    return {0.5 * std::log1p(x * (2 + x) + y * y), std::atan2(y, 1 + x)};
  }
}

template <typename T>
T logistic(T a, ElementType) {
  return T{1} / (T{1} + std::exp(-a));
}

template <typename T>
T cube_root(T a, ElementType) {
  if constexpr (kIsReal<T>)
    return std::cbrt(a);
  else
    return std::polar(std::cbrt(std::abs(a)), std::arg(a) / 3);
}

template <typename T>
T arc_tangent_2(T y, T x, ElementType) {
  if constexpr (kIsReal<T>) {
    return std::atan2(y, x);
  } else {
    constexpr Complex kI{0, 1};
    return -kI * std::log((x + kI * y) / std::sqrt(x * x + y * y));
  }
}

// A step of the decompositions of asin and its kin (ChloDecompositionPatternsMath.td):
// sqrt(a^2 - x^2) + i log(a + sqrt(a^2 - 1)), a half the sum of the distances from -1 and 1. The imaginary
// part is the magnitude of asin's.
Complex asin_acos_kernel(Complex z, ElementType) {
  const double a = (std::abs(z + 1.0) + std::abs(z - 1.0)) / 2;
  return {std::sqrt((a - z.real()) * (a + z.real())), std::fabs(std::asin(z).imag())};
}

Complex conjugate_of(Complex a, ElementType) { return std::conj(a); }
Real identity(Real a, ElementType) { return a; }

// Neighbouring codes are neighbouring values: one step up or down the codes of the type.
Real next_after(Real from, Real to, ElementType type) {
  if (std::isnan(from) || std::isnan(to)) return from + to;
  if (from == to) return to;
  if (from == 0) return std::copysign(smallest_positive(type), to);
  const uint64_t code = encode(type, from);
  const bool away = (from > 0) == (to > from);
  return decode(type, away ? code + 1 : code - 1);
}
Real zeta(Real s, Real q, ElementType) { return hurwitz_zeta(s, q); }
Real polygamma_of(Real order, Real x, ElementType) { return polygamma(order, x); }

template <typename T>
UnaryFunction<T> unary_of_real(OpKind kind) {
  switch (kind) {
    case OpKind::ceil_: return ceiling<T>;
    case OpKind::floor_: return floor_of<T>;
    case OpKind::round_nearest_afz_: return round_away<T>;
    case OpKind::round_nearest_even_: return round_even<T>;
    case OpKind::abs_: return absolute<T>;
    case OpKind::real_: return identity;
    case OpKind::chlo_conj_: return identity;
    case OpKind::chlo_erf_: return error_function<T>;
    case OpKind::chlo_erfc_: return complementary_error<T>;
    case OpKind::chlo_erf_inv_: return inverse_error<T>;
    case OpKind::chlo_lgamma_: return log_gamma_of<T>;
    case OpKind::chlo_digamma_: return digamma_of<T>;
    case OpKind::chlo_bessel_i1e_: return bessel_i1e_of<T>;
    default: return nullptr;
  }
}

template <typename T>
UnaryFunction<T> unary_of_float(OpKind kind) {
  switch (kind) {
    case OpKind::negate_: return negate<T>;
    case OpKind::sign_: return sign<T>;
    case OpKind::cbrt_: return cube_root<T>;
    case OpKind::cosine_: return cosine<T>;
    case OpKind::sine_: return sine<T>;
    case OpKind::tan_:
    case OpKind::chlo_tan_: return tangent<T>;
    case OpKind::tanh_: return hyperbolic_tangent<T>;
    case OpKind::exponential_: return exponential<T>;
    case OpKind::exponential_minus_one_: return exponential_minus_one<T>;
    case OpKind::log_: return logarithm<T>;
    case OpKind::log_plus_one_: return log_plus_one<T>;
    case OpKind::logistic_: return logistic<T>;
    case OpKind::sqrt_: return square_root<T>;
    case OpKind::rsqrt_: return reciprocal_root<T>;
    case OpKind::chlo_square_: return square<T>;
    case OpKind::chlo_acos_:
    case OpKind::chlo_broadcast_acos_: return arc_cosine<T>;
    case OpKind::chlo_acosh_: return area_cosine<T>;
    case OpKind::chlo_asin_: return arc_sine<T>;
    case OpKind::chlo_asinh_: return area_sine<T>;
    case OpKind::chlo_atan_: return arc_tangent<T>;
    case OpKind::chlo_atanh_: return area_tangent<T>;
    case OpKind::chlo_cosh_: return hyperbolic_cosine<T>;
    case OpKind::chlo_sinh_: return hyperbolic_sine<T>;
    default: return nullptr;
  }
}

template <typename T>
UnaryFunction<T> unary_of_integer(OpKind kind) {
  switch (kind) {
    case OpKind::abs_: return absolute<T>;
    case OpKind::negate_: return negate<T>;
    case OpKind::sign_: return sign<T>;
    case OpKind::not_: return bit_not<T>;
    case OpKind::popcnt_: return population_count<T>;
    case OpKind::count_leading_zeros_: return count_leading_zeros<T>;
    case OpKind::chlo_square_: return square<T>;
    default: return nullptr;
  }
}

template <typename T>
BinaryFunction<T> binary_of_bits(OpKind kind) {
  switch (kind) {
    case OpKind::and_: return bit_and<T>;
    case OpKind::or_: return bit_or<T>;
    case OpKind::xor_: return bit_xor<T>;
    default: return nullptr;
  }
}

template <typename T>
BinaryFunction<T> binary_of_integer(OpKind kind) {
  switch (kind) {
    case OpKind::divide_: return divide<T>;
    case OpKind::remainder_: return remainder<T>;
    case OpKind::power_: return power<T>;
    case OpKind::shift_left_: return shift_left<T>;
    case OpKind::shift_right_logical_: return shift_right_logical<T>;
    case OpKind::shift_right_arithmetic_: return shift_right_arithmetic<T>;
    case OpKind::chlo_mulhi_: return multiply_high<T>;
    default: return binary_of_bits<T>(kind);
  }
}

template <typename T>
BinaryFunction<T> binary_of_float(OpKind kind) {
  switch (kind) {
    case OpKind::divide_: return divide<T>;
    case OpKind::power_: return power<T>;
    case OpKind::atan2_: return arc_tangent_2<T>;
    default: return nullptr;
  }
}

BinaryFunction<Real> binary_of_real(OpKind kind) {
  switch (kind) {
    case OpKind::remainder_: return remainder<Real>;
    case OpKind::chlo_next_after_: return next_after;
    case OpKind::chlo_zeta_: return zeta;
    case OpKind::chlo_polygamma_: return polygamma_of;
    default: return binary_of_float<Real>(kind);
  }
}

// -NaN < -inf < ... < -0 < +0 < ... < inf < NaN, as the codes order them.
int64_t total_order_key(double value) {
  const auto code = std::bit_cast<int64_t>(value);
  return code < 0 ? code ^ INT64_MAX : code;
}

}  // namespace

template <typename T>
UnaryFunction<T> unary_function(OpKind kind) {
  if constexpr (kIsBool<T>) {
    return kind == OpKind::not_ ? bit_not<T> : nullptr;
  } else if constexpr (kIsInteger<T>) {
    return unary_of_integer<T>(kind);
  } else if constexpr (kIsReal<T>) {
    const auto found = unary_of_real<T>(kind);
    return found ? found : unary_of_float<T>(kind);
  } else {
    if (kind == OpKind::chlo_conj_) return conjugate_of;
    if (kind == OpKind::chlo__asin_acos_kernel_) return asin_acos_kernel;
    return unary_of_float<T>(kind);
  }
}

template <typename T>
BinaryFunction<T> binary_function(OpKind kind) {
  switch (kind) {
    case OpKind::add_: return add<T>;
    case OpKind::subtract_: return subtract<T>;
    case OpKind::multiply_: return multiply<T>;
    case OpKind::maximum_: return maximum<T>;
    case OpKind::minimum_: return minimum<T>;
    default: break;
  }
  if constexpr (kIsBool<T>)
    return binary_of_bits<T>(kind);
  else if constexpr (kIsInteger<T>)
    return binary_of_integer<T>(kind);
  else if constexpr (kIsReal<T>)
    return binary_of_real(kind);
  else
    return binary_of_float<T>(kind);
}

OpKind without_broadcast(OpKind kind) {
  switch (kind) {
#define OPENTRN_ROW(NAME) \
  case OpKind::chlo_broadcast_##NAME##_: return OpKind::NAME##_;
    OPENTRN_ROW(add)
    OPENTRN_ROW(and)
    OPENTRN_ROW(atan2)
    OPENTRN_ROW(compare)
    OPENTRN_ROW(complex)
    OPENTRN_ROW(divide)
    OPENTRN_ROW(maximum)
    OPENTRN_ROW(minimum)
    OPENTRN_ROW(multiply)
    OPENTRN_ROW(or)
    OPENTRN_ROW(power)
    OPENTRN_ROW(remainder)
    OPENTRN_ROW(select)
    OPENTRN_ROW(shift_left)
    OPENTRN_ROW(shift_right_arithmetic)
    OPENTRN_ROW(shift_right_logical)
    OPENTRN_ROW(subtract)
    OPENTRN_ROW(xor)
#undef OPENTRN_ROW
    case OpKind::chlo_broadcast_next_after_: return OpKind::chlo_next_after_;
    case OpKind::chlo_broadcast_polygamma_: return OpKind::chlo_polygamma_;
    case OpKind::chlo_broadcast_zeta_: return OpKind::chlo_zeta_;
    default: return kind;
  }
}

template <typename T>
bool compare(ComparisonDirection direction, ComparisonType type, T a, T b) {
  if constexpr (kIsReal<T>) {
    if (type == ComparisonType::kTotalOrder)
      return compare<Signed>(direction, ComparisonType::kSigned, total_order_key(a), total_order_key(b));
  }
  if (direction == ComparisonDirection::kEq) return a == b;
  if (direction == ComparisonDirection::kNe) return a != b;
  if constexpr (kIsComplex<T>) {
    // Lexicographic, by real part first.
    if (a.real() != b.real()) return compare<Real>(direction, type, a.real(), b.real());
    return compare<Real>(direction, type, a.imag(), b.imag());
  } else {
    switch (direction) {
      case ComparisonDirection::kGe: return a >= b;
      case ComparisonDirection::kGt: return a > b;
      case ComparisonDirection::kLe: return a <= b;
      default: return a < b;
    }
  }
}

#define OPENTRN_INSTANTIATE(T)                           \
  template UnaryFunction<T> unary_function<T>(OpKind);   \
  template BinaryFunction<T> binary_function<T>(OpKind); \
  template bool compare<T>(ComparisonDirection, ComparisonType, T, T);
OPENTRN_INSTANTIATE(Bool)
OPENTRN_INSTANTIATE(Signed)
OPENTRN_INSTANTIATE(Unsigned)
OPENTRN_INSTANTIATE(Real)
OPENTRN_INSTANTIATE(Complex)
#undef OPENTRN_INSTANTIATE

}  // namespace opentrn::graph::eval
