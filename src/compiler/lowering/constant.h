// Data that a compiled program reads from HBM.
#pragma once

#include "graph/literal.h"
#include "isa/program.h"

namespace opentrn::compiler {

// A literal that must lie in an HBM tensor, in its device form, before the program runs.
struct Constant {
  isa::TensorId tensor;
  graph::Literal literal;
};

}  // namespace opentrn::compiler
