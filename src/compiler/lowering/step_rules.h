// Which ops of a row-wise group are steps of an instruction with the op before them (steps.h).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>

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
  // Whether the result of an op, the last of so many steps, can wait for its only user.
  bool waits_for(const graph::Op& op, const graph::Op& user, size_t steps) const;
  // Arithmetic of two full fp32 values.
  bool joins_tensors(const graph::Op& op) const;
  // An operator on the bits of two full words, of 32 bits.
  bool joins_words(const graph::Op& op) const;
  // An operator on bits of this group makes it: a full word.
  bool makes_word(graph::ValueId value) const;
  // Between types of 32 bits, which stay as they are.
  bool keeps_words(const graph::Op& op) const;

 private:
  bool is_arithmetic(const graph::Op& op) const;
  bool is_one_per_row(graph::ValueId value) const;
  bool is_word(graph::ValueId value) const;
  bool is_bitwise(const graph::Op& op) const;
  std::optional<size_t> place_of_bits(const graph::Op& op) const;
};

// Which ops of a row-wise group read what others of it make.
class GroupUsers {
 public:
  GroupUsers(const graph::Function& function, const Plan& plan, int index);
  // The one op that reads the value, if it is among `ops`; null where `others` read it, too.
  const graph::Op* only(graph::ValueId value, std::span<const graph::OpId> ops, bool others) const;
  // Whether one of them reduces the value as it is.
  bool reduces(graph::ValueId value, std::span<const graph::OpId> ops) const;

 private:
  const graph::Function& function_;
  std::map<graph::ValueId, std::pair<graph::OpId, int>> users_;  // the last one, and how many
};

}  // namespace opentrn::compiler
