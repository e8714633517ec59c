// How a graph's element types lie in a device's memory, and what that does to values.
#pragma once

#include <optional>

#include "graph/element_type.h"
#include "numerics/dtype.h"

namespace opentrn::compiler {

// i1 and integers of 2 and 4 bits take a byte, as in a Literal. 64-bit integers are kept as 32-bit ones and
// f64 as f32, as AWS's compiler does; a model that has them says so in its report. Complex numbers are pairs
// of floats in memory (lowering/complex.cc) and have no type of their own here. nullopt: no device form
// (complex numbers, floats of 4 and 6 bits, "fnuz" formats).
std::optional<DType> device_dtype(graph::ElementType element);
// True where the device form holds fewer values than the type.
bool is_narrowed(graph::ElementType element);

}  // namespace opentrn::compiler
