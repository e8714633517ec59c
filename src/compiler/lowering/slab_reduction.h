// Reductions whose kept elements lie side by side in memory: over a batch, over the tokens of a sentence.
#pragma once

#include <optional>

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/matrix.h"
#include "graph/module.h"

namespace opentrn::compiler {

// `input`: kept elements by reduced ones; `output`: one number for each kept element. `initial`: a number that meets
// each result, where it is not neutral. False, and nothing is emitted, where kept elements do not lie side by side, or
// so many are reduced that transposing them on chip is cheaper.
bool reduce_slabs(Emitter& emitter, AluOp op, const Matrix& input, const Matrix& output,
                  std::optional<double> initial);

// Whether reduce_slabs() is for this reduction of an operand that lies in memory as its type says.
bool reduces_slabs(const graph::Function& function, const graph::Op& op);

}  // namespace opentrn::compiler
