// The pretty forms of ops that are plain sequences: one table for parser and printer.
//
// A form is words separated by spaces:
//   %          an operand                 %*       the remaining operands, separated by commas
//   {name}     the value of an attribute, spelled by its kind ({slice} and {format} are two special ones)
//   @{name}    a string or symbol as @name
//   ?{name}    `, name = value` where present;  ?!{name}  `, value` where present
//   dict       the attributes not yet written, where there are any
//   :fn        `: (operand types) -> result types`
//   :same      `: type` when all operands and the result have it, else as :fn
//   :result    `: result type`            :operands  `: operand types` where there are any
//   :arrow     `: operand types -> result types`
//   :complex :select :tuple :pairwise     as MLIR's custom<ComplexOpType>, <SelectOpType>, <TupleOpType>,
//              <PairwiseOpType>
//   anything else stands for itself.
// Source: stablehlo/dialect/StablehloOps.td and ChloOps.td, `assemblyFormat`.
#pragma once

#include <string_view>

#include "graph/op_kind.h"

namespace opentrn::graph::text {

// Empty for ops that have no pretty form; "special" for those that parse_pretty.cc and print_op.cc write
// out (constant, while, reduce, convolution, dot, dot_general, composite, top_k, scan).
std::string_view assembly_form(OpKind kind);

}  // namespace opentrn::graph::text
