// A new version of a program, written instruction by instruction from the old one.
//
// Tables and tensors are those of the old program, so operands can be taken over as they are; tensors can be
// added and stood in for. Edges the program states are carried over to the instructions' new places.
#pragma once

#include <span>
#include <vector>

#include "isa/program.h"

namespace opentrn::backend {

// Loop markers hold instruction indices and a loop's body runs many times: passes leave such programs alone.
bool has_control_flow(const isa::Program& program);

class Rewrite {
 public:
  explicit Rewrite(const isa::Program& from);

  const isa::Program& from() const { return from_; }
  isa::Program& to() { return to_; }

  // From now on `tensor` of the old program is `stand_in`.
  void rename(isa::TensorId tensor, isa::TensorId stand_in) { now_[tensor] = stand_in; }
  isa::TensorId name_of(isa::TensorId tensor) const { return now_[tensor]; }
  // A tensor like `tensor`, in `space`.
  isa::TensorId clone(isa::TensorId tensor, isa::MemorySpace space);

  // The instruction as it is now named.
  void keep(isa::InstructionIndex index);
  // The same on this engine.
  void keep_on(isa::InstructionIndex index, isa::Engine engine);
  // The same, but with `slot` as given; for instructions that are repeated.
  void repeat(isa::InstructionIndex index, int slot, const isa::Operand& operand);
  // Several instructions as one: like the first of them, with `operands`, which are taken as they are.
  void keep_as(std::span<const isa::InstructionIndex> indices, std::span<const isa::Operand> operands);
  // dst = src by DMA or, with kTensorCopy, on an engine; the location is that of instruction `like`.
  void copy(isa::Opcode opcode, const isa::Operand& dst, const isa::Operand& src, isa::InstructionIndex like,
            std::string_view name);

  isa::Program take();

 private:
  isa::Operand renamed(isa::Operand operand);

  const isa::Program& from_;
  isa::Program to_;
  std::vector<isa::TensorId> now_;            // by TensorId of the old program
  std::vector<isa::InstructionIndex> place_;  // by old instruction; kGone when dropped
  std::vector<isa::Operand> operands_;
};

}  // namespace opentrn::backend
