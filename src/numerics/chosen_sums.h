// Products whose stationary operand chooses: each of its elements is zero or one, and few are ones.
//
// Segment sums, counts and gathers by comparison multiply by such a matrix. The Tensor Engine takes as long
// for them as for any other product; here the rows that an output adds up are few, and adding those alone has
// the bits of matmul.h's contract: fma(1, x, s) is x + s, and fma(0, x, s) is s where x is finite, for s
// begins as +0 and a sum of fp32 numbers is -0 only if all of them are.
#pragma once

#include "numerics/matmul.h"

namespace opentrn::numerics {

// Computes the tile and gives true if it is such a product, of fp32 operands, and adding is faster. Else
// nothing is written.
bool add_chosen_rows(const MatmulTile& tile);

}  // namespace opentrn::numerics
