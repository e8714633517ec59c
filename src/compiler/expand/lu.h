// LU decompositions with exchanges of rows, as LAPACK's getrf has them, for a whole batch: a block of columns
// after another, each a kernel of its own where it fits in a partition (lowering/small_lu.cc), else column by
// column. Behind each block stand an exchange of rows, a triangular system and a product.
#pragma once

#include "compiler/expand/batch.h"

namespace opentrn::compiler {

struct Elimination {
  Batch packed;  // [batch, rows, columns]: L below U
  Batch pivots;  // [batch, 1, count], i32: the row that each was exchanged with, from 1
  Batch order;   // [batch, rows, 1], i32: the row that each was, from 0
  Batch info;    // [batch, 1, 1], i32: 0, or the place of the first pivot that is zero, from 1
};
Elimination eliminated(const Batch& a, bool pivots);

}  // namespace opentrn::compiler
