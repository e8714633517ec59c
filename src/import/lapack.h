// LAPACK's calls in programs that were lowered for XLA's CPU backend: `lapack_sgeqrf_ffi` and its like, as
// JAX writes them into StableHLO and XLA into HLO. They become what stands for them on every device: the
// decompositions of graph/solver_call.h, cholesky and triangular_solve.
//
// Source of names, operands, results and attributes: XLA's xla/backends/cpu (ffi kernels of LAPACK) and
// jax/_src/lax/linalg.py. Attributes are LAPACK's letters as numbers: mode 'V', 'N', 'S', 'A', uplo 'L', 'U'.
// What of a result LAPACK leaves unspecified is the operand or zero here.
#pragma once

#include "graph/module.h"

namespace opentrn::import {

// Replaces geqrf, orgqr and ungqr, getrf, gesdd, syevd and heevd, potrf, trsm, each in its four element
// types; other calls stay, and whoever runs them refuses them by name. Input fault "import.lapack" for a call
// with other operands or results than the kernel has.
void replace_lapack_calls(graph::Module& module);

}  // namespace opentrn::import
