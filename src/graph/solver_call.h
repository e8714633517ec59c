// Custom calls that are decompositions of matrices: StableHLO has no ops for them. JAX's and PyTorch's front
// ends write them, the evaluator computes them in double (eval/solvers.cc), the compiler expands them
// (compiler/expand).
//
//   @opentrn.geqrf(A)             (packed, taus): R above the reflections' vectors, min(rows, columns)
//   coefficients
//   @opentrn.ormqr(packed, taus, B)   Q B, or Q^H B with "adjoint", Q the product of the reflections
//   @opentrn.getrf(A)             (L below U, pivots i32, info i32), "no_pivot": without exchanges of rows;
//                                 with "permutation" also which row of A each one is, i32 from 0
//   @opentrn.eigh(A)              (eigenvalues, eigenvectors as columns) of Hermitian matrices of which the
//   lower
//                                 triangle is read, or the upper one with "upper"; rising with "sorted"
//   @opentrn.svd(A)               (U, singular values falling, V^H); all of U and V with "full"
//
// A is [..., rows, columns] of floats or complex numbers; what is real of a complex matrix (eigenvalues,
// singular values) has its parts' type. Packed factors, pivots (from 1) and info (0, or the place of the
// first pivot that is zero, from 1) are LAPACK's (LAPACK Users' Guide, 3rd ed.; geqrf, ormqr, getrf). The
// words stand in backend_config, separated by blanks. Wrong operands or results are refused by
// "custom_call.solver" (shape/solver.cc).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/module.h"

namespace opentrn::graph {

enum class Solver : uint8_t { kGeqrf, kOrmqr, kGetrf, kEigh, kSvd };

// Nullopt for every other op.
std::optional<Solver> solver_of(const Op& op);
// Whether backend_config has the word.
bool solver_says(const Op& op, std::string_view word);

}  // namespace opentrn::graph
