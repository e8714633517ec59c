// Element-wise ops that wait for the next one: two of them are one instruction, and so is a conversion after
// them.
//
//   (data op0 scalar0) op1 scalar1, rounded to the type of dst
//   (data op0 scalar0) op tensor, tensor op (data op0 scalar0)
//   function(data + scalar), function(data - scalar), function(data * scalar)
//
// Each op rounds to fp32 once, as if it had been an instruction of its own. Operators on bits of words with
// numbers are steps of the first kind.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/emitter.h"
#include "graph/module.h"

namespace opentrn::compiler {

struct Step {
  AluOp op;
  Scalar scalar;
};

struct Steps {
  Tile data;
  std::vector<Step> steps;  // at most kStepsMax
  std::optional<ActivationFunction> then;
};
inline constexpr size_t kStepsMax = 2;

// What they read.
std::vector<Term> operands_of(const Steps& steps);

// A function can follow these steps in one instruction.
bool can_activate(const Steps& steps);

// One instruction, on the Vector engine or, where it can and has less to do, on Scalar. A function of data
// less a column takes one more, of one element in each row.
void emit_steps(Emitter& emitter, const Tile& dst, const Steps& steps);

// In a short program: the table of the next function that one of `ops`, in their order, takes after that of
// `op`, loaded as soon as `made` is there, while the steps between them are done.
void load_next_table(Emitter& emitter, const graph::Function& function, std::span<const graph::OpId> ops,
                     const graph::Op& op, const Tile& made);

// Ops whose instructions read PSUM, one operand of them.
bool reads_sums(graph::OpKind kind);
// Whether the op made `tile`, like `like` in type, rows and columns, for its result alone.
bool makes_own_tile(const graph::Op& op, const Tile& tile, const Tile& like);
// Of an op that is a step.
AluOp alu_of_step(graph::OpKind kind);

}  // namespace opentrn::compiler
