// Small floating formats, described by data, with slow exact conversions.
//
// This file is the specification in code: decode() and encode() follow the definition of a binary
// floating format with double arithmetic and no bit tricks. convert.h is the fast path and must
// agree with it bit for bit (convert_test.cc, tests/numerics/test_formats_vs_ml_dtypes.py).
//
// cFP8 is AWS's name for the 8-bit formats with configurable range (E5M2, E4M3, E3M4), whose
// exponent bias is adjustable on NeuronCore-v3. [doc: about-neuron/arch/neuron-features/data-types.rst,
// neuron-hardware/neuron-core-v3.rst]. The pages do not say which biases exist nor how one is set;
// with_bias() gives the format that a bias would mean.
#pragma once

#include <cstdint>

#include "numerics/dtype.h"

namespace opentrn::numerics {

enum class Specials : uint8_t {
  kIeee,       // largest exponent holds infinities and NaNs
  kFiniteNan,  // "fn": no infinity; NaN is the all-ones exponent and mantissa
  kFinite,     // "fn" of e2m1: neither infinity nor NaN
};

// What a value beyond the largest finite one becomes.
enum class Overflow : uint8_t {
  kIeee,      // infinity; NaN where the format has no infinity; the largest value if it has neither
  kSaturate,  // the largest finite value; infinity too
};

// Sign, exponent, mantissa, from the top bit down. All these formats have subnormals.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  // Exponent of the smallest normal number.
  constexpr int exponent_min() const { return 1 - bias; }
  // Code of the largest finite value, sign clear.
  constexpr uint32_t max_finite_code() const {
    const uint32_t all_ones = sign_bit() - 1;
    if (specials == Specials::kFinite) return all_ones;
    if (specials == Specials::kFiniteNan) return all_ones - 1;
    return all_ones - (1u << mantissa_bits);
  }
  // Quiet NaN, sign clear; kFinite has none.
  constexpr uint32_t nan_code() const {
    const uint32_t all_ones = sign_bit() - 1;
    if (specials == Specials::kFiniteNan) return all_ones;
    return (((1u << exponent_bits) - 1) << mantissa_bits) | (1u << (mantissa_bits - 1));
  }
  // What overflow gives under Overflow::kIeee, sign clear.
  constexpr uint32_t overflow_code() const {
    if (specials == Specials::kFinite) return max_finite_code();
    return max_finite_code() + 1;  // infinity, or NaN for "fn"
  }
  constexpr FloatFormat with_bias(int new_bias) const {
    FloatFormat changed = *this;
    changed.bias = new_bias;
    return changed;
  }
};

inline constexpr FloatFormat kFormatFloat16{5, 10, 15, Specials::kIeee};
inline constexpr FloatFormat kFormatBFloat16{8, 7, 127, Specials::kIeee};
inline constexpr FloatFormat kFormatTFloat32{8, 10, 127, Specials::kIeee};  // 19 bits, unpadded
inline constexpr FloatFormat kFormatFloat8E3M4{3, 4, 3, Specials::kIeee};
inline constexpr FloatFormat kFormatFloat8E4M3{4, 3, 7, Specials::kIeee};
inline constexpr FloatFormat kFormatFloat8E4M3Fn{4, 3, 7, Specials::kFiniteNan};
inline constexpr FloatFormat kFormatFloat8E5M2{5, 2, 15, Specials::kIeee};
inline constexpr FloatFormat kFormatFloat4E2M1Fn{2, 1, 1, Specials::kFinite};

// The value of a code. NaN codes give a NaN with the same sign.
float decode(const FloatFormat& format, uint32_t code);

// Nearest value, ties to even. A NaN gives nan_code() with its sign (the largest value's code with
// its sign for kFinite, as no NaN exists).
uint32_t encode(const FloatFormat& format, float value, Overflow overflow = Overflow::kIeee);

// Stochastic rounding: away from zero exactly when random32 < floor(2^32 * f), where f is the
// distance to the neighbour towards zero, in units of the gap; exact values never move.
uint32_t encode_stochastic(const FloatFormat& format, float value, uint32_t random32,
                           Overflow overflow = Overflow::kIeee);

// The scale format of OCP MX: 2^(code - 127); 0xFF is NaN.
float decode_e8m0(uint8_t code);
// Nearest power of two, a value half way going up, as ml_dtypes does (OCP MX does not say); below
// 2^-127 gives 2^-127. Zero, negative values, infinity, NaN and anything that rounds above 2^127 give NaN.
uint8_t encode_e8m0(float value);

}  // namespace opentrn::numerics
