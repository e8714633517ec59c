// Which ops of a row-wise group are steps of an instruction with the op before them (steps.h).
#pragma once

#include <map>
#include <optional>

#include "compiler/lowering/joint_transfers.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/plan.h"
#include "graph/module.h"

namespace opentrn::compiler {

struct StepRules {
  const graph::Function& function;
  const Plan& plan;
  int index;  // of the group
  const std::map<JointTransfers::Key, Matrix>& operands;
  bool one_column;  // the tile in hand has one

  bool is_f32(graph::ValueId value) const;
  // The value is one number per row.
  bool is_column(graph::ValueId value) const;
  // Between floats that fp32 holds; the last step of an instruction.
  bool is_rounding(const graph::Op& op) const;
  // Of a number, or one number per row, among the operands of a full fp32 op; of a number of one on columns.
  std::optional<size_t> place_of_scalar(const graph::Op& op) const;
  // Arithmetic of two full fp32 values.
  bool joins_tensors(const graph::Op& op) const;

 private:
  bool is_arithmetic(const graph::Op& op) const;
  bool is_one_per_row(graph::ValueId value) const;
};

}  // namespace opentrn::compiler
