// The activation functions of the Scalar Engine on rows of fp32.
//
// The hardware evaluates piecewise polynomials whose coefficients are not public, so OpenTrn
// computes the mathematical function in fp32, within a few ulp [assumed: a device differs by its
// polynomials]. It does so with polynomials and fused multiply-adds only: the same bits on every host and
// vector width. The bound on the error is activation_error_ulp().
//
// Outside valid_range() the hardware "will generate invalid output results" [doc:
// nki/api/nki.api.shared.rst]. For sin the page says what they are: no range reduction, a cubic
// extrapolates (sin(9.0) gives about 27.65), and so does this. Everywhere else the mathematical
// function is returned, and callers that check use valid_range().
//
// Special values: NaN gives the quiet NaN 0x7fc00000 (kCopy moves bits); infinities give the limit of
// the function where there is one (of the cubic for sin), else that NaN. Subnormals are kept.
#pragma once

#include <cstddef>
#include <string_view>

#include "numerics/alu.h"
#include "numerics/ops.h"

namespace opentrn::numerics {

// out[i] = function(in[i]). `param` is the slope of kPrelu for negative inputs; others ignore it.
// `out` may be `in`; other overlap is not allowed.
void activate(ActivationFunction function, const float* in, float* out, size_t n, float param = 0.0f);

// x * scale + bias: product and sum are rounded one by one, as kMultiply and kAdd do. The default leaves
// every number as it is.
struct Affine {
  float scale = 1.0f;
  float bias = -0.0f;
};
// out[i] = function(in[i] * scale + bias)
void activate(ActivationFunction function, Affine affine, const float* in, float* out, size_t n);

// The same for `rows` rows of n elements, each with its own slope, or scale and bias.
void activate(ActivationFunction function, FloatRows in, MutableFloatRows out, size_t rows, size_t n,
              RowScalars param);
void activate(ActivationFunction function, RowScalars scale, RowScalars bias, FloatRows in,
              MutableFloatRows out, size_t rows, size_t n);

// One element in double precision, from the definition: the reference (needs libm, so tests only).
double activation_reference(ActivationFunction function, double x, double param = 0.0);

// The promised error against activation_reference: |error| <= this many units in the last place of
// max(|result|, activation_error_floor). The floor is 0 except where two terms cancel: in derivatives
// around their zero, and in the cubic of sin beyond pi.
double activation_error_ulp(ActivationFunction function);
double activation_error_floor(ActivationFunction function, double x);

// Inputs that the hardware documents as valid: min <= x <= max, or for `magnitude` min <= |x| <= max.
struct ValidRange {
  float min;
  float max;
  bool magnitude = false;

  bool contains(float x) const;
};
ValidRange valid_range(ActivationFunction function);

}  // namespace opentrn::numerics
