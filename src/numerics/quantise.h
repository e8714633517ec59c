// Numbers in int8 or fp8 with one fp32 scale for each column, or microscaled: of constants that a compiler
// narrows, and of weights that a loader does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "numerics/dtype.h"

namespace opentrn::numerics {

// The largest number that quantise_columns() gives: 127 of int8, so that -128 is not used, 240, 448 and 57344
// of fp8 e4m3, e4m3fn and e5m2.
float largest_quantised(DType type);

// Of values [rows, columns]: scales max |w| / largest number over a column, 1 where all are zeros, and w /
// scale rounded to nearest even. `together`: so many columns that lie side by side share the largest of their
// scales; empty: each has its own. `values` is overwritten. False, and nothing else is said, where a value is
// not finite.
bool quantise_columns(DType type, std::span<float> values, std::span<float> scales, std::byte* narrow,
                      std::span<const int64_t> together = {});

// Numbers of a block that share a power of two (OCP Microscaling v1.0).
inline constexpr size_t kMxBlock = 32;

// Of values [rows, columns], rows in whole blocks: packed [rows / 4, columns], four numbers of a column in
// each element of `x4`, and codes [rows / 32, columns] e8m0. A block's scale is 2^(floor(log2 amax) - e) for
// e = the largest exponent of an element, as in the specification's own example, or twice that, whichever has
// the smaller sum of squared errors: the first one cuts off what lies between the largest element and
// 2^(e+1). Ties go to the first. False, and nothing else is said, where a value is not finite.
bool microscale_columns(DType x4, std::span<const float> values, size_t columns, std::byte* packed,
                        uint8_t* codes);

}  // namespace opentrn::numerics
