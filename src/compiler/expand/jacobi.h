// What the forms of Jacobi's method share (eigen.cc), and the one whose rounds are a kernel: rows of matrices
// in fp32 over partitions (analysis/rotations_call.h).
#pragma once

#include <string>
#include <vector>

#include "compiler/expand/eigen.h"

namespace opentrn::compiler {

// Before the last. Convergence is quadratic: one fewer was enough for matrices of up to 256 rows.
int64_t sweeps(int64_t size);
// An added row or column meets zeros only: it is never turned, and is back in its place after whole sweeps.
int64_t even(int64_t size);
// A custom call that a kernel takes.
std::vector<graph::ValueId> called(Writer& writer, const char* target, std::string words,
                                   const std::vector<graph::ValueId>& operands,
                                   const std::vector<graph::Type>& types);

// Whether the kernel takes matrices of which it turns rows of `length` numbers, as many as `a` has columns.
bool are_turned_by_rows(const Batch& a, int64_t length);
// The largest magnitude of each matrix, [batch, 1, 1], or one: rotations square numbers.
Batch unit_of(const Batch& a);
Eigen eigen_by_rows(const Batch& a);

// The columns of a matrix that is not wider than high, at right angles, and the turns that made them so.
struct Turned {
  Batch columns, vectors;
};
Turned turned_by_rows(const Batch& a);
// [batch, 1, columns], in no order, and perhaps a zero more.
Batch singular_values_by_rows(const Batch& a);

}  // namespace opentrn::compiler
