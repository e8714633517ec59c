// What reductions along rows share, and those whose sums must be exact.
#pragma once

#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/emitter.h"
#include "graph/module.h"

namespace opentrn::compiler {

// The operator of a reduction by this op.
AluOp alu_of(graph::OpKind combiner);
// Whether the number changes nothing that is reduced.
bool is_neutral(graph::OpKind combiner, graph::ElementType element, double number);
// [rows, run]: integers and booleans by halves, as the Vector engine's reduction would round them to fp32.
// What is reduced is `run` columns apart in `data`.
Tile reduce_exactly(Emitter& emitter, graph::OpKind combiner, graph::ElementType element, Tile data,
                    double initial, int64_t run = 1);

}  // namespace opentrn::compiler
