#include "graph/eval/rounding.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/fault.h"

namespace opentrn::graph::eval {

namespace {

using Specials = Format::Specials;

// The exponent range of the finite values: value = m * 2^(e - mantissa_bits), 2^mantissa_bits <= m for
// normal numbers.
int exponent_min(const Format& format) { return 1 - format.bias; }

double largest(const Format& format) {
  const int top = (1 << format.exponent_bits) - 1 - format.bias;
  const double ones = 2.0 - std::ldexp(1.0, -format.mantissa_bits);  // 1.11...1
  switch (format.specials) {
    case Specials::kIeee: return std::ldexp(ones, top - 1);
    case Specials::kFiniteNan: {
      // Without mantissa bits the all-ones exponent is NaN altogether.
      const double below = ones - std::ldexp(1.0, -format.mantissa_bits);
      return format.mantissa_bits == 0 ? std::ldexp(1.0, top - 1) : std::ldexp(below, top);
    }
    case Specials::kFinite:
    case Specials::kUnsignedZero: return std::ldexp(ones, top);
    case Specials::kPowerOfTwo: return std::ldexp(1.0, 127);
  }
  return 0;
}

double overflow_value(const Format& format, double value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (format.specials) {
    case Specials::kIeee: return std::copysign(kInfinity, value);
    case Specials::kFinite: return std::copysign(largest(format), value);
    default: return std::copysign(std::numeric_limits<double>::quiet_NaN(), value);
  }
}

// OCP's scale format. Ties go up, as ml_dtypes does; zero, negative values, infinities and anything
// above 2^127 give NaN, anything positive below 2^-127 gives 2^-127.
double round_power_of_two(double value) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (!(value > 0) || std::isinf(value)) return kNan;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // [0.5, 1)
  const int rounded = fraction >= 0.75 ? exponent : exponent - 1;
  if (rounded > 127) return kNan;
  return std::ldexp(1.0, rounded < -127 ? -127 : rounded);
}

double round_format(const Format& format, double value) {
  if (format.specials == Specials::kPowerOfTwo) return round_power_of_two(value);
  // Without NaN: a zero of the other sign, as ml_dtypes, and with it JAX and ONNX, has it.
  if (std::isnan(value))
    return format.specials == Specials::kFinite ? (std::signbit(value) ? 0.0 : -0.0) : value;
  if (std::isinf(value)) return overflow_value(format, value);
  if (value == 0) return format.specials == Specials::kUnsignedZero ? 0.0 : value;
  int exponent = std::ilogb(value);
  if (exponent < exponent_min(format)) exponent = exponent_min(format);
  // Exact: the scaling moves by powers of two within double's range.
  const double scaled = std::ldexp(value, format.mantissa_bits - exponent);
  const double rounded = std::ldexp(std::nearbyint(scaled), exponent - format.mantissa_bits);
  if (std::fabs(rounded) > largest(format)) return overflow_value(format, value);
  if (rounded == 0 && format.specials == Specials::kUnsignedZero) return 0.0;
  return rounded;
}

uint64_t nan_code(const Format& format, bool negative) {
  const uint64_t sign = 1ull << (format.exponent_bits + format.mantissa_bits);
  switch (format.specials) {
    case Specials::kUnsignedZero: return sign;
    case Specials::kPowerOfTwo: return 0xFF;
    case Specials::kFiniteNan: return (sign - 1) | (negative ? sign : 0);
    default: {
      const uint64_t quiet =
          ((1ull << format.exponent_bits) - 1) << format.mantissa_bits | 1ull << (format.mantissa_bits - 1);
      return quiet | (negative ? sign : 0);
    }
  }
}

}  // namespace

const Format& format_of(ElementType type) {
  static constexpr Format kF4E2M1{2, 1, 1, Specials::kFinite};
  static constexpr Format kF6E2M3{2, 3, 1, Specials::kFinite};
  static constexpr Format kF6E3M2{3, 2, 3, Specials::kFinite};
  static constexpr Format kF8E3M4{3, 4, 3, Specials::kIeee};
  static constexpr Format kF8E4M3{4, 3, 7, Specials::kIeee};
  static constexpr Format kF8E4M3FN{4, 3, 7, Specials::kFiniteNan};
  static constexpr Format kF8E4M3FNUZ{4, 3, 8, Specials::kUnsignedZero};
  static constexpr Format kF8E4M3B11FNUZ{4, 3, 11, Specials::kUnsignedZero};
  static constexpr Format kF8E5M2{5, 2, 15, Specials::kIeee};
  static constexpr Format kF8E5M2FNUZ{5, 2, 16, Specials::kUnsignedZero};
  static constexpr Format kF8E8M0{8, 0, 127, Specials::kPowerOfTwo};
  static constexpr Format kBF16{8, 7, 127, Specials::kIeee};
  static constexpr Format kF16{5, 10, 15, Specials::kIeee};
  static constexpr Format kTF32{8, 10, 127, Specials::kIeee};
  static constexpr Format kF32{8, 23, 127, Specials::kIeee};
  switch (type) {
    case ElementType::kF4E2M1FN: return kF4E2M1;
    case ElementType::kF6E2M3FN: return kF6E2M3;
    case ElementType::kF6E3M2FN: return kF6E3M2;
    case ElementType::kF8E3M4: return kF8E3M4;
    case ElementType::kF8E4M3: return kF8E4M3;
    case ElementType::kF8E4M3FN: return kF8E4M3FN;
    case ElementType::kF8E4M3FNUZ: return kF8E4M3FNUZ;
    case ElementType::kF8E4M3B11FNUZ: return kF8E4M3B11FNUZ;
    case ElementType::kF8E5M2: return kF8E5M2;
    case ElementType::kF8E5M2FNUZ: return kF8E5M2FNUZ;
    case ElementType::kF8E8M0FNU: return kF8E8M0;
    case ElementType::kBF16: return kBF16;
    case ElementType::kF16: return kF16;
    case ElementType::kTF32: return kTF32;
    case ElementType::kF32: return kF32;
    default: break;
  }
  throw Fault(FaultKind::kInternal, "eval.format", fmt::format("{} has no small format", name(type)));
}

double round_to(ElementType type, double value) {
  if (type == ElementType::kF64) return value;
  if (type == ElementType::kF32) return static_cast<float>(value);
  return round_format(format_of(type), value);
}

void round_to(ElementType type, std::span<double> values) {
  if (type == ElementType::kF64) return;
  if (type == ElementType::kF32) {
    for (double& value : values) value = static_cast<float>(value);
    return;
  }
  const Format& format = format_of(type);
  for (double& value : values) value = round_format(format, value);
}

uint64_t encode(ElementType type, double value) {
  if (type == ElementType::kF64) return std::bit_cast<uint64_t>(value);
  if (type == ElementType::kF32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const Format& format = format_of(type);
  value = round_format(format, value);
  const bool negative = std::signbit(value);
  if (std::isnan(value)) return nan_code(format, negative);
  if (format.specials == Specials::kPowerOfTwo) return static_cast<uint64_t>(std::ilogb(value) + 127);
  const uint64_t sign = negative ? 1ull << (format.exponent_bits + format.mantissa_bits) : 0;
  // TF32 sits in the upper 19 bits of a 32-bit word, as f32 with 13 zero bits below.
  const int shift = type == ElementType::kTF32 ? 13 : 0;
  const uint64_t code = [&]() -> uint64_t {
    if (value == 0) return 0;
    if (std::isinf(value)) return ((1ull << format.exponent_bits) - 1) << format.mantissa_bits;
    const int exponent = std::ilogb(value);
    const double magnitude = std::fabs(value);
    if (exponent < exponent_min(format))
      return static_cast<uint64_t>(std::ldexp(magnitude, format.mantissa_bits - exponent_min(format)));
    const auto significand = static_cast<uint64_t>(std::ldexp(magnitude, format.mantissa_bits - exponent));
    const auto biased = static_cast<uint64_t>(exponent + format.bias);
    return (biased << format.mantissa_bits) + (significand - (1ull << format.mantissa_bits));
  }();
  return (sign | code) << shift;
}

double decode(ElementType type, uint64_t code) {
  if (type == ElementType::kF64) return std::bit_cast<double>(code);
  if (type == ElementType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(code));
  const Format& format = format_of(type);
  if (type == ElementType::kTF32) code >>= 13;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (format.specials == Specials::kPowerOfTwo)
    return code == 0xFF ? kNan : std::ldexp(1.0, static_cast<int>(code) - 127);
  const uint64_t mantissa = code & ((1ull << format.mantissa_bits) - 1);
  const auto exponent =
      static_cast<int>((code >> format.mantissa_bits) & ((1ull << format.exponent_bits) - 1));
  const bool negative = ((code >> (format.exponent_bits + format.mantissa_bits)) & 1) != 0;
  const bool top = exponent == (1 << format.exponent_bits) - 1;
  double value = 0;
  if (format.specials == Specials::kIeee && top)
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : kNan;
  else if (format.specials == Specials::kFiniteNan && top && mantissa == (1ull << format.mantissa_bits) - 1)
    value = kNan;
  else if (format.specials == Specials::kUnsignedZero && negative && exponent == 0 && mantissa == 0)
    return kNan;
  else if (exponent == 0)
    value = std::ldexp(static_cast<double>(mantissa), exponent_min(format) - format.mantissa_bits);
  else
    value = std::ldexp(static_cast<double>(mantissa + (1ull << format.mantissa_bits)),
                       exponent - format.bias - format.mantissa_bits);
  return negative ? -value : value;
}

int64_t wrap_signed(int bits, int64_t value) {
  const int unused = 64 - bits;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
}

uint64_t wrap_unsigned(int bits, uint64_t value) {
  const int unused = 64 - bits;
  return (value << unused) >> unused;
}

double largest_finite(ElementType type) {
  return type == ElementType::kF64 ? std::numeric_limits<double>::max() : largest(format_of(type));
}

double smallest_positive(ElementType type) {
  if (type == ElementType::kF64) return std::numeric_limits<double>::denorm_min();
  const Format& format = format_of(type);
  if (format.specials == Specials::kPowerOfTwo) return std::ldexp(1.0, -127);
  return std::ldexp(1.0, exponent_min(format) - format.mantissa_bits);
}

}  // namespace opentrn::graph::eval
