// Loops with carried states and scanned outputs, as while_: for Loop, Scan and the recurrent operators.
#pragma once

#include <functional>

#include "import/onnx/node.h"

namespace opentrn::import::onnx {

// What one iteration makes from its index and the states before it.
struct Iteration {
  std::optional<ValueId> condition;  // whether to go on; nullopt: always
  Values states;
  Values slices;  // of the scanned outputs, one each
};

// May be called more than once.
using IterationBody = std::function<Iteration(Builder& builder, ValueId index, const Values& states)>;

struct LoopResult {
  Values states;
  Values scanned;  // slices stacked in a new first dimension
};

// At most `count` iterations, none when `first_condition` is false. `reversed`: scanned outputs filled from
// the end. Refused when an iteration may be the last and there are scanned outputs: their length would
// depend on data.
LoopResult loop(const Node& n, int64_t count, std::optional<ValueId> first_condition, const Values& states,
                const IterationBody& body, const std::vector<bool>& reversed = {});

}  // namespace opentrn::import::onnx
