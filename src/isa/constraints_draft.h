// For tests: a legal instruction of every opcode, and ways to break it.
#pragma once

#include <utility>
#include <vector>

#include "isa/constraints.h"
#include "isa/definitions.h"

namespace opentrn::isa {

inline constexpr MemorySpace kSbuf = MemorySpace::kSbuf, kPsum = MemorySpace::kPsum, kHbm = MemorySpace::kHbm;
inline constexpr DType kF32 = DType::kFloat32, kBf16 = DType::kBFloat16, kU16 = DType::kUint16,
                       kU32 = DType::kUint32, kI32 = DType::kInt32;

inline AttributeWord word(int64_t value) { return {.integer = value}; }
inline AttributeWord word(AluOp op) { return {.integer = static_cast<int64_t>(op)}; }
inline AttributeWord word(ActivationFunction f) { return {.integer = static_cast<int64_t>(f)}; }
inline AttributeWord word(ReduceCmd cmd) { return {.integer = static_cast<int64_t>(cmd)}; }
inline AttributeWord word_real(double value) { return {.real = value}; }

struct Draft {
  explicit Draft(Opcode opcode);

  Program program;
  Opcode opcode;
  Engine engine = Engine::kUnknown;
  Generation generation = Generation::kV3;
  std::vector<Operand> operands;
  std::vector<AttributeWord> attributes;

  Operand tile(MemorySpace space, DType dtype, std::vector<int64_t> shape);
  Operand sbuf(DType dtype, std::vector<int64_t> shape) { return tile(kSbuf, dtype, std::move(shape)); }
  Operand psum(DType dtype, std::vector<int64_t> shape) { return tile(kPsum, dtype, std::move(shape)); }
  void same(int count);  // appends tiles of fp32 in SBUF, of 64 partitions and 16 elements
  AttributeWord list(std::vector<int64_t> values) { return word(int64_t{program.intern_list(values)}); }
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

// The legal instruction of an opcode, in instructions/<family>_test.cc.
namespace drafts {
#define OPENTRN_DRAFT(opcode, name, number) void name(Draft& d);
OPENTRN_INSTRUCTIONS(OPENTRN_DRAFT)
#undef OPENTRN_DRAFT
}  // namespace drafts

}  // namespace opentrn::isa
