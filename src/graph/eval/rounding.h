// Every floating value of the evaluator is a double that its element type can represent (f32 and f16
// among them): an op computes in double and rounds its results once, to nearest, ties to even. For
// +, -, *, / and sqrt on formats of up to 24 significand bits that is the correctly rounded result.
#pragma once

#include <cstdint>
#include <span>

#include "graph/element_type.h"

namespace opentrn::graph::eval {

// A binary floating format of at most 32 bits. Sources: ml_dtypes, LLVM's APFloat semantics.
struct Format {
  enum class Specials : uint8_t {
    kIeee,          // infinities and NaNs
    kFiniteNan,     // "FN": the all-ones code is NaN, no infinities
    kFinite,        // neither: overflow and NaN give the largest value
    kUnsignedZero,  // "FNUZ": no infinities, no -0; its code is the only NaN
    kPowerOfTwo,    // f8E8M0FNU: exponent only, no sign, no zero; 0xFF is NaN
  };
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;
};
const Format& format_of(ElementType type);  // float types other than f64

// The nearest value of `type`. Overflow gives an infinity, NaN where the format has none, or its largest
// value where it has neither.
double round_to(ElementType type, double value);
void round_to(ElementType type, std::span<double> values);

// A representable value's code, and back.
uint64_t encode(ElementType type, double value);
double decode(ElementType type, uint64_t code);

// Integers wrap modulo 2^width and are kept sign- or zero-extended.
int64_t wrap_signed(int bits, int64_t value);
uint64_t wrap_unsigned(int bits, uint64_t value);

double largest_finite(ElementType type);
double smallest_positive(ElementType type);  // subnormal where the format has them

}  // namespace opentrn::graph::eval
