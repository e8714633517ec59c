#include "numerics/float_format.h"

#include <bit>
#include <cmath>
#include <limits>

namespace opentrn::numerics {
namespace {

constexpr double kTwoTo32 = 4294967296.0;

struct Rounded {
  uint32_t code;  // sign clear; may lie beyond the largest finite code
  double fraction;
};

// `magnitude` > 0 and finite: the code of the neighbour towards zero, and how far above it we are.
Rounded truncate_to_code(const FloatFormat& format, double magnitude) {
  int exponent = std::ilogb(magnitude);
  if (exponent < format.exponent_min()) exponent = format.exponent_min();
  // In units of the gap between neighbours; scaling by a power of two is exact in double.
  const double units = std::ldexp(magnitude, format.mantissa_bits - exponent);
  const double whole = std::floor(units);
  // `whole` holds the hidden bit, so it adds one to the exponent field of a normal number.
  const auto field = static_cast<uint32_t>(exponent - format.exponent_min());
  return {(field << format.mantissa_bits) + static_cast<uint32_t>(whole), units - whole};
}

uint32_t finish(const FloatFormat& format, uint32_t code, Overflow overflow) {
  if (code <= format.max_finite_code()) return code;
  return overflow == Overflow::kSaturate ? format.max_finite_code() : format.overflow_code();
}

// Codes of NaN, infinity and zero need no rounding.
template <typename RoundUp>
uint32_t encode_with(const FloatFormat& format, float value, Overflow overflow, RoundUp round_up) {
  const uint32_t sign = std::signbit(value) ? format.sign_bit() : 0;
  if (std::isnan(value)) {
    return sign | (format.specials == Specials::kFinite ? format.max_finite_code() : format.nan_code());
  }
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | finish(format, format.max_finite_code() + 1, overflow);
  const Rounded down = truncate_to_code(format, std::fabs(static_cast<double>(value)));
  return sign | finish(format, down.code + (round_up(down) ? 1 : 0), overflow);
}

}  // namespace

float decode(const FloatFormat& format, uint32_t code) {
  const uint32_t sign = (code & format.sign_bit()) != 0 ? 1u << 31 : 0;
  const uint32_t magnitude = code & (format.sign_bit() - 1);
  const uint32_t field = magnitude >> format.mantissa_bits;
  const uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  if (magnitude > format.max_finite_code()) {
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << (23 - format.mantissa_bits));
  }
  const double hidden = field == 0 ? 0.0 : std::ldexp(1.0, format.mantissa_bits);
  const int exponent = field == 0 ? format.exponent_min() : static_cast<int>(field) - format.bias;
  const double value = std::ldexp(hidden + mantissa, exponent - format.mantissa_bits);
  return static_cast<float>(sign != 0 ? -value : value);
}

uint32_t encode(const FloatFormat& format, float value, Overflow overflow) {
  return encode_with(format, value, overflow, [](const Rounded& down) {
    return down.fraction > 0.5 || (down.fraction == 0.5 && (down.code & 1) != 0);
  });
}

uint32_t encode_stochastic(const FloatFormat& format, float value, uint32_t random32, Overflow overflow) {
  return encode_with(format, value, overflow, [random32](const Rounded& down) {
    return static_cast<double>(random32) < std::floor(down.fraction * kTwoTo32);
  });
}

float decode_e8m0(uint8_t code) {
  if (code == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(std::ldexp(1.0, code - 127));
}

uint8_t encode_e8m0(float value) {
  if (!(value > 0) || std::isinf(value)) return 0xff;
  const double magnitude = value;
  int exponent = std::ilogb(magnitude);
  if (magnitude >= std::ldexp(1.5, exponent)) ++exponent;
  if (exponent < -127) return 0;
  return exponent > 127 ? 0xff : static_cast<uint8_t>(exponent + 127);
}

}  // namespace opentrn::numerics
