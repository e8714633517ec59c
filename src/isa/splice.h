// Splice: copies instructions of one program into another, which goes on around them.
//
// Tensors and registers of the source get ids of their own in the target, unless a tensor is bound to one
// that is there. What the source knows by number in its own tables (patterns, lists, strings, places in the
// user's file) is numbered anew. Loops that are written out are not told apart in the target.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "isa/program.h"

namespace opentrn::isa {

class Splice {
 public:
  // Both outlive the splice; they are two programs. `loop`: the innermost loop that is open in `into`: what
  // the copy makes belongs to one of its iterations.
  Splice(const Program& from, Program& into, std::optional<InstructionIndex> loop = std::nullopt);

  // `tensor` of the source is this tensor of the target, which lies in the same kind of memory and is as
  // large.
  void bind(TensorId tensor, TensorId place);
  TensorId tensor(TensorId of_source);
  Operand operand(const Operand& of_source);
  // The whole source, and its scheduling edges.
  void copy();
  // `flags`: further ones of the copy.
  InstructionIndex copy(const Instruction& instruction, uint8_t flags = 0);
  // The instruction of the source with this index has become that one.
  void note(InstructionIndex of_source, InstructionIndex index) { made_[of_source] = index; }

 private:
  AttributeWord attribute(const Instruction& instruction, size_t slot);
  LocationId location(LocationId of_source);

  const Program& from_;
  Program& into_;
  std::optional<InstructionIndex> loop_;
  RegisterId first_register_;
  std::vector<std::optional<TensorId>> tensors_;
  std::vector<std::optional<LocationId>> locations_;
  std::unordered_map<uint32_t, uint32_t> indirects_;
  std::unordered_map<InstructionIndex, InstructionIndex> made_;
};

}  // namespace opentrn::isa
