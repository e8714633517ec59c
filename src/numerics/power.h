// Powers of fp32 numbers, the same on every host.
#pragma once

namespace opentrn::numerics {

// x to the power y: correctly rounded but for about one case in a million, where it is off by one ulp.
// Special values as C's pow and numpy.power: power(x, 0) and power(1, y) are 1 even for NaN; a negative
// base with a fractional exponent is NaN.
float power(float x, float y);

}  // namespace opentrn::numerics
