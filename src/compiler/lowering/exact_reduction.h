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
// Every element of an integer or boolean value is smaller in size than 2 to this power, as the ops that make
// it say; at most the width of its type.
int magnitude_bits(const graph::Function& function, graph::ValueId value);
// [rows, run]: integers and booleans. Where fp32 holds all that can come up, by one reduction of the Vector
// engine, which computes in it; else by halves. `bits`: magnitude_bits() of what is reduced, which is `run`
// columns apart in `data`.
Tile reduce_exactly(Emitter& emitter, graph::OpKind combiner, graph::ElementType element, Tile data,
                    double initial, int bits, int64_t run = 1);

}  // namespace opentrn::compiler
