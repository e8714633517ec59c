// The elementwise ops on single values of a compute type: the one place that says what they mean.
//
// Results are not normalised: integers may be wider than the element type and floats not yet rounded
// (tensor.h: normalise). The element type is an argument because widths matter to shifts and counts.
#pragma once

#include "graph/attribute.h"
#include "graph/element_type.h"
#include "graph/eval/tensor.h"
#include "graph/op_kind.h"

namespace opentrn::graph::eval {

template <typename T>
using UnaryFunction = T (*)(T, ElementType);
template <typename T>
using BinaryFunction = T (*)(T, T, ElementType);

// Null when the op is not elementwise or not defined on T. Ops whose result has another type than their
// operand (compare, real, is_finite, convert, abs of complex) are in elementwise.cc.
template <typename T>
UnaryFunction<T> unary_function(OpKind kind);
template <typename T>
BinaryFunction<T> binary_function(OpKind kind);

// The op of a chlo.broadcast_* op: chlo.broadcast_add is add. Other kinds are returned as they are.
OpKind without_broadcast(OpKind kind);

// A total order for kTotalOrder; otherwise false when an operand is NaN, but for kNe.
template <typename T>
bool compare(ComparisonDirection direction, ComparisonType type, T a, T b);

}  // namespace opentrn::graph::eval
