// Which element types hold the numbers of which.
#pragma once

#include <optional>

#include "graph/module.h"

namespace opentrn::compiler {

// Bits of the exponent and of the fraction.
struct FloatFormat {
  int exponent_bits, mantissa_bits;
};
// nullopt for integers and for floats of 8 bits and fewer.
std::optional<FloatFormat> format_of(graph::ElementType element);

// Every value of `from` is a value of `to`.
bool holds_all(graph::ElementType from, graph::ElementType to);

// Kernels of products take an operand in `narrow` where the other one is in `wide`: its numbers widen
// exactly.
bool is_narrow_operand_type(graph::ElementType narrow, graph::ElementType wide);

// Whether a product may read the value as it is kept, beside an operand in `wide`: a constant of such a type,
// or 8 bits of an argument of the function or of a part of one, which nothing computes.
bool is_narrow_operand(const graph::Function& function, graph::ValueId value, graph::ElementType wide);

}  // namespace opentrn::compiler
