#include "graph/element_value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fault.h"

namespace opentrn::graph {

namespace {

enum class Specials : uint8_t {
  kIeee,    // the largest exponent holds infinities and NaNs
  kFn,      // no infinity; NaN is the all-ones code
  kFinite,  // neither
  kFnuz,    // no infinity, no negative zero; NaN is the code of negative zero
};

// Source: the definitions of the types in MLIR's Float8* and Float6* documentation and OCP MX.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint64_t sign() const { return uint64_t{1} << (bits() - 1); }
  uint64_t max_finite() const {
    const uint64_t all = sign() - 1;
    if (specials == Specials::kIeee) return all - (uint64_t{1} << mantissa_bits);
    return specials == Specials::kFn ? all - 1 : all;
  }
  uint64_t nan() const {
    switch (specials) {
      case Specials::kIeee: return max_finite() + 1 + (uint64_t{1} << (mantissa_bits - 1));
      case Specials::kFn: return sign() - 1;
      case Specials::kFinite: return 0;  // has none: encode() gives a zero
      case Specials::kFnuz: return sign();
    }
    return 0;
  }
};

Format format_of(ElementType element) {
  switch (element) {
    case ElementType::kF4E2M1FN: return {2, 1, 1, Specials::kFinite};
    case ElementType::kF6E2M3FN: return {2, 3, 1, Specials::kFinite};
    case ElementType::kF6E3M2FN: return {3, 2, 3, Specials::kFinite};
    case ElementType::kF8E3M4: return {3, 4, 3, Specials::kIeee};
    case ElementType::kF8E4M3: return {4, 3, 7, Specials::kIeee};
    case ElementType::kF8E4M3FN: return {4, 3, 7, Specials::kFn};
    case ElementType::kF8E4M3FNUZ: return {4, 3, 8, Specials::kFnuz};
    case ElementType::kF8E4M3B11FNUZ: return {4, 3, 11, Specials::kFnuz};
    case ElementType::kF8E5M2: return {5, 2, 15, Specials::kIeee};
    case ElementType::kF8E5M2FNUZ: return {5, 2, 16, Specials::kFnuz};
    case ElementType::kBF16: return {8, 7, 127, Specials::kIeee};
    case ElementType::kF16: return {5, 10, 15, Specials::kIeee};
    default: break;
  }
  throw Fault(FaultKind::kInternal, "graph.element", std::string(name(element)) + " is not a small float");
}

double decode(const Format& format, uint64_t code) {
  const bool negative = (code & format.sign()) != 0;
  const uint64_t magnitude = code & (format.sign() - 1);
  if (format.specials == Specials::kFnuz && code == format.sign())
    return std::numeric_limits<double>::quiet_NaN();
  if (magnitude > format.max_finite()) {
    if (format.specials == Specials::kIeee && magnitude == format.max_finite() + 1)
      return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return std::copysign(std::numeric_limits<double>::quiet_NaN(), negative ? -1.0 : 1.0);
  }
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const auto fraction = static_cast<double>(magnitude & ((uint64_t{1} << format.mantissa_bits) - 1));
  const double one = std::ldexp(1.0, format.mantissa_bits);
  const double value = exponent == 0
                           ? std::ldexp(fraction, 1 - format.bias - format.mantissa_bits)
                           : std::ldexp(one + fraction, exponent - format.bias - format.mantissa_bits);
  return negative ? -value : value;
}

uint64_t encode(const Format& format, double value) {
  const uint64_t sign = std::signbit(value) ? format.sign() : 0;
  if (std::isnan(value)) {
    // Without NaN: a zero of the other sign, as ml_dtypes has it.
    if (format.specials == Specials::kFinite) return sign ^ format.sign();
    return format.specials == Specials::kFnuz ? format.nan() : sign | format.nan();
  }
  const double magnitude = std::fabs(value);
  int exponent = -2000;  // zero: as the smallest subnormals
  if (magnitude > 0 && std::isfinite(magnitude)) std::frexp(magnitude, &exponent);
  // The exponent of the last mantissa bit, no smaller than that of the subnormals.
  const int last = std::max(exponent - 1, 1 - format.bias) - format.mantissa_bits;
  const double steps = std::isfinite(magnitude) ? std::nearbyint(std::ldexp(magnitude, -last)) : 0;
  uint64_t code = 0;
  uint64_t overflow = format.nan();
  if (format.specials == Specials::kIeee) overflow = format.max_finite() + 1;
  if (format.specials == Specials::kFinite) overflow = format.max_finite();
  if (!std::isfinite(magnitude)) {
    code = overflow;
  } else {
    // Steps count in units of `last`: with the hidden bit they carry into the exponent by themselves.
    const auto biased = static_cast<uint64_t>(last + format.mantissa_bits + format.bias - 1);
    code = (biased << format.mantissa_bits) + static_cast<uint64_t>(steps);
    if (code > format.max_finite()) code = overflow;
  }
  if (format.specials == Specials::kFnuz && (code == 0 || code == format.nan())) return code;
  return sign | code;
}

template <typename T>
T read(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// 2^(code - 127), 0xFF is NaN; what rounds out of range or is not positive is NaN, as ml_dtypes has it.
double decode_e8m0(uint8_t code) {
  return code == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

uint8_t encode_e8m0(double value) {
  if (!(value > 0) || !std::isfinite(value)) return 0xFF;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  const int rounded = exponent - 1 + (fraction >= 0.75 ? 1 : 0);
  if (rounded > 127) return 0xFF;
  return static_cast<uint8_t>(std::max(rounded, -127) + 127);
}

}  // namespace

uint64_t load_bits(ElementType element, const std::byte* bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, static_cast<size_t>(std::min(storage_bytes(element), 8)));
  return bits;
}

void store_bits(ElementType element, uint64_t bits, std::byte* bytes) {
  std::memcpy(bytes, &bits, static_cast<size_t>(std::min(storage_bytes(element), 8)));
}

int64_t load_integer(ElementType element, const std::byte* bytes) {
  const uint64_t bits = load_bits(element, bytes);
  if (!is_signed_integer(element)) return static_cast<int64_t>(bits);
  const int unused = 64 - 8 * storage_bytes(element);
  return static_cast<int64_t>(bits << unused) >> unused;
}

void store_integer(ElementType element, int64_t value, std::byte* bytes) {
  const int unused = 64 - bit_width(element);
  const uint64_t high = static_cast<uint64_t>(value) << unused;
  const uint64_t bits = is_signed_integer(element)
                            ? static_cast<uint64_t>(static_cast<int64_t>(high) >> unused)
                            : high >> unused;
  store_bits(element, bits, bytes);
}

double load_real(ElementType element, const std::byte* bytes) {
  if (element == ElementType::kF64) return read<double>(bytes);
  if (element == ElementType::kF32 || element == ElementType::kTF32) return read<float>(bytes);
  if (element == ElementType::kF8E8M0FNU) return decode_e8m0(read<uint8_t>(bytes));
  return decode(format_of(element), load_bits(element, bytes));
}

void store_real(ElementType element, double value, std::byte* bytes) {
  switch (element) {
    case ElementType::kF64: store_bits(element, std::bit_cast<uint64_t>(value), bytes); return;
    case ElementType::kF32:
      store_bits(element, std::bit_cast<uint32_t>(static_cast<float>(value)), bytes);
      return;
    case ElementType::kTF32: {
      // A float whose low 13 mantissa bits are zero.
      const uint64_t code = encode({8, 10, 127, Specials::kIeee}, value);
      store_bits(element, code << 13, bytes);
      return;
    }
    case ElementType::kF8E8M0FNU: store_bits(element, encode_e8m0(value), bytes); return;
    default: store_bits(element, encode(format_of(element), value), bytes);
  }
}

}  // namespace opentrn::graph
