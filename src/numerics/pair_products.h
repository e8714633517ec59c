// Products of bf16 by the instruction that multiplies pairs of them (VDPBF16PS of AVX512_BF16): two
// multiply-adds in the time of one, where the processor is fast at it.
//
// The instruction adds both products of a pair to a sum, that of the upper halves first, each with one
// rounding. Two rows of the contraction as a pair, the earlier one above, have the bits of matmul.h's
// contract but at the ends of the range: the instruction takes subnormal numbers for zero, and how it treats
// a product beyond the largest number is not documented. So columns go this way only where the exponents of
// both operands prove that no operand, product or sum is subnormal and that every product is finite: all of a
// matrix' numbers are multiples of the last place of its smallest, so all products, and sums however they are
// rounded, are multiples of the product of those places.
#pragma once

#include "numerics/matmul.h"

namespace opentrn::numerics {

// Whether this build and processor have the instruction, with the bits above.
bool has_pair_products();
// Whether it does at least 1.3 times the products of fp32 multiply-adds here: measured at the first call.
bool are_pair_products_fast();

// Computes the tile, if its operands are of bf16, of fp8 or of fp32 with numbers of bf16, and its shape makes
// that worth while; columns whose numbers do not allow it are given to `others` as tiles of their own. False:
// nothing was done. Needs has_pair_products().
bool multiply_pairs(const MatmulTile& tile, void (*others)(const MatmulTile&));

}  // namespace opentrn::numerics
