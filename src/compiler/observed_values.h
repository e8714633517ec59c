// Every intermediate value of a model as a result: what `opentrn diff` compares.
//
// All modules here are made from the prepared graph (compile.h), so that the device program and the
// reference see the same ops. An op is judged by its own error: the reference computes it alone, in f64, from
// the very operands that the device had; errors of earlier ops are then no part of it.
#pragma once

#include <string>
#include <vector>

#include "compiler/options.h"
#include "graph/module.h"

namespace opentrn::compiler {

// What rounding may do to the op's result, when its operands are exact.
enum class Judgement : uint8_t {
  kExact,     // nothing: it moves, compares, selects, or computes with integers
  kRounded,   // one rounding to the result's type
  kFunction,  // a function that engines approximate: some units in the last place
  kSum,       // one rounding per term, of partial sums as large as the sum of the terms' magnitudes
  kUnknown,   // control flow, random numbers, linear algebra: no bound is known
};

struct ObservedValue {
  std::string kind;      // "stablehlo.add"
  SourceLocation where;  // of the op in the model; `function` is the framework's name of it
  graph::Type type;
  Judgement judgement = Judgement::kUnknown;
  double terms = 1;  // of one element of a sum
};

struct ObservedValues {
  std::vector<ObservedValue> values;  // in program order
  // The prepared entry; its results are the model's, then one per value.
  graph::Module whole;
  size_t result_count = 0;  // of the model's own
  // Every op alone. Arguments: the model's, then one per value; results: one per value.
  graph::Module alone;
  // As `alone`, but only the values judged kFunction, in their order.
  graph::Module functions;
  // As `alone`, but only the values judged kSum, with the magnitudes of the float operands: how large the
  // terms are.
  graph::Module magnitudes;
};

// Observes the results of all ops of the entry that make new values of a device type; constants and
// rearranging ops are judged with the op that reads them. `module` is of prepare().
ObservedValues observe(const graph::Module& module);

}  // namespace opentrn::compiler
