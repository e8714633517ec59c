// For tests: a legal instruction of every opcode, and ways to break it.
#pragma once

#include <vector>

#include "isa/constraints.h"
#include "isa/definitions.h"

namespace opentrn::isa {

struct Draft {
  explicit Draft(Opcode opcode);

  Program program;
  Opcode opcode;
  Engine engine = Engine::kUnknown;
  int generation = 3;
  std::vector<Operand> operands;
  std::vector<AttributeWord> attributes;

  Operand tile(MemorySpace space, DType dtype, std::vector<int64_t> shape);
  // The same operand, changed.
  void shape(int slot, std::vector<int64_t> shape);
  void dtype(int slot, DType dtype);
  void space(int slot, MemorySpace space);
  void place(int slot, int partition);
  // Another walk over the same tensor.
  void walk(int slot, std::vector<Dim> dims, int64_t offset = 0);
  void indirect(int slot, IndirectKind kind, int index_partition = 0);
  void number(int slot, double value) { operands[static_cast<size_t>(slot)] = Operand::imm(value); }
  void none(int slot) { operands[static_cast<size_t>(slot)] = Operand::none(); }

  void set(int slot, int64_t value) { attributes[static_cast<size_t>(slot)].integer = value; }
  void set(int slot, AluOp op) { set(slot, static_cast<int64_t>(op)); }
  void set(int slot, ReduceCmd cmd) { set(slot, static_cast<int64_t>(cmd)); }
  void set_real(int slot, double value) { attributes[static_cast<size_t>(slot)].real = value; }
  void set_list(int slot, std::vector<int64_t> values) { set(slot, int64_t{program.intern_list(values)}); }

  void run();  // appends the instruction and checks it

 private:
  void fill();
  const Tensor& tensor(int slot) const { return program.tensor(operands[static_cast<size_t>(slot)].tensor); }
  std::vector<int64_t> shape_of(int slot) const;
};

}  // namespace opentrn::isa
