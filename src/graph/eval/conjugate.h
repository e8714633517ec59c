// Conjugates and parts of numbers that may be complex, for kernels written once for both.
#pragma once

#include <complex>

#include "graph/eval/tensor.h"

namespace opentrn::graph::eval {

inline Real conjugate(Real a) { return a; }
inline Complex conjugate(Complex a) { return std::conj(a); }
inline Real real_of(Real a) { return a; }
inline Real real_of(Complex a) { return a.real(); }

}  // namespace opentrn::graph::eval
