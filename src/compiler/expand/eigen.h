// Eigenvalues of Hermitian matrices and singular values, by Jacobi's rotations.
//
// Rounds of disjoint rotations (Brent and Luk, SIAM J. Sci. Stat. Comput. 6, 1985): a round turns the rows,
// or columns, 2i and 2i + 1 for every i at once, by products of matrices, which the Tensor engine does, and
// brings other pairs together for the next. Rounding adds up over the rounds, so that the vectors are then
// made orthonormal again, and one more sweep begins from the matrix.
#pragma once

#include "compiler/expand/batch.h"

namespace opentrn::compiler {

struct Eigen {
  Batch values;   // [batch, 1, size], real
  Batch vectors;  // as columns
};
// Of Hermitian matrices, whole; rising where `sorted`, else in no order.
Eigen eigen_of(const Batch& a, bool sorted);

struct Singular {
  Batch u, values, v;  // values falling, [batch, 1, columns]
};
// Of matrices that are not wider than high; all columns of U where `full`. `only_values`: nobody reads the
// vectors, and what stands for them is of their types.
Singular singular_of(const Batch& a, bool full, bool only_values);

}  // namespace opentrn::compiler
