// QR decompositions by Householder's reflections, as LAPACK's geqr2, org2r and ormqr have them: a reflection
// is I - tau v v^H with v's first entry 1, R has a real diagonal. Source: LAPACK Users' Guide, 3rd ed.,
// section 5.4.
#pragma once

#include "compiler/expand/batch.h"

namespace opentrn::compiler {

struct Reflections {
  Batch packed;  // [batch, rows, columns]: R above the reflections' vectors
  Batch taus;    // [batch, 1, count]
};
Reflections reflections_of(const Batch& a);
// Q b, or Q^H b.
Batch reflected(const Reflections& q, const Batch& b, bool adjoint);

}  // namespace opentrn::compiler
