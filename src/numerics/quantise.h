// Numbers in int8 or fp8 with one fp32 scale for each column: of constants that a compiler narrows, and of
// weights that a loader does.
#pragma once

#include <cstddef>
#include <span>

#include "numerics/dtype.h"

namespace opentrn::numerics {

// The largest number that quantise_columns() gives: 127 of int8, so that -128 is not used, 240, 448 and 57344
// of fp8 e4m3, e4m3fn and e5m2.
float largest_quantised(DType type);

// Of values [rows, columns]: scales max |w| / largest number over a column, 1 where all are zeros, and w /
// scale rounded to nearest even. `values` is overwritten. False, and nothing else is said, where a value is
// not finite.
bool quantise_columns(DType type, std::span<float> values, std::span<float> scales, std::byte* narrow);

}  // namespace opentrn::numerics
