// Reductions whose kept elements lie side by side in memory: over a batch, over the tokens of a sentence.
#pragma once

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/matrix.h"
#include "graph/module.h"

namespace opentrn::compiler {

struct SlabOp {
  graph::OpKind combiner;
  graph::ElementType element;
  double initial;  // meets each result
  int bits = 0;    // of integers and booleans: magnitude_bits() of what is reduced
};

// Of a reduction with a combiner and a number to begin with.
SlabOp slab_op(const graph::Function& function, const graph::Op& op);

// `input`: kept elements by reduced ones; `output`: one number for each kept element. False, and nothing is
// emitted, where kept elements do not lie side by side, or transposing them on chip is cheaper.
bool reduce_slabs(Emitter& emitter, const SlabOp& op, const Matrix& input, const Matrix& output);

// Whether reduce_slabs() is for this reduction of an operand that lies in memory as its type says.
bool reduces_slabs(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::compiler
