// Element-wise ops that wait for the next one: two of them are one instruction, and so is a conversion after
// them.
//
//   (data op0 scalar0) op1 scalar1, rounded to the type of dst
//
// Each op rounds to fp32 once, as if it had been an instruction of its own.
#pragma once

#include <vector>

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

struct Step {
  AluOp op;
  Scalar scalar;
};

struct Steps {
  Tile data;
  std::vector<Step> steps;  // at most kStepsMax
};
inline constexpr size_t kStepsMax = 2;

// One instruction, on the Vector engine or, where it can and has less to do, on Scalar.
void emit_steps(Emitter& emitter, const Tile& dst, const Steps& steps);

}  // namespace opentrn::compiler
