#include "isa/program.h"

#include <gtest/gtest.h>

#include "isa/executable.h"
#include "isa/tensor_label.h"

namespace opentrn::isa {
namespace {

Pattern pattern(std::initializer_list<Dim> dims) {
  Pattern p;
  for (const Dim& dim : dims) p.dims[p.rank++] = dim;
  return p;
}

TEST(Pattern, CountsAndExtents) {
  const Pattern p = pattern({{512, 128}, {-2, 4}, {0, 3}});
  EXPECT_EQ(p.element_count(), 128 * 4 * 3);
  EXPECT_EQ(p.elements_per_partition(), 12);
  EXPECT_EQ(p.min_offset(), -6);
  EXPECT_EQ(p.max_offset(), 512 * 127);
}

TEST(Program, InternsWhatRepeats) {
  Program program;
  const PatternId a = program.intern_pattern(pattern({{4, 2}, {1, 4}}));
  const PatternId b = program.intern_pattern(pattern({{4, 2}, {1, 3}}));
  EXPECT_NE(a, b);
  EXPECT_EQ(program.intern_pattern(pattern({{4, 2}, {1, 4}})), a);
  const int64_t list[] = {1, 2, 3};
  EXPECT_EQ(program.intern_list(list), program.intern_list(list));
  const LocationId x = program.intern_location("k.py", 3, "f");
  EXPECT_EQ(program.intern_location("k.py", 3, "f"), x);
  EXPECT_NE(program.intern_location("k.py", 4, "f"), x);
  EXPECT_EQ(program.location(x).line, 3);
}

TEST(Program, AnInstructionKeepsItsOperandsAndAttributes) {
  Program program;
  Tensor tile;
  tile.rows = 2;
  tile.row_elements = 4;
  const TensorId id = program.add_tensor(tile);
  Operand dst;
  dst.kind = OperandKind::kAccess;
  dst.tensor = id;
  dst.pattern = program.intern_pattern(pattern({{4, 2}, {1, 4}}));
  const Operand operands[] = {dst, Operand::imm(2.5)};
  const InstructionIndex i = program.append(Opcode::kMemset, Engine::kVector, operands, {}, 0);
  const Instruction& in = program.instruction(i);
  EXPECT_EQ(program.operand(in, slot::memset::kValue).immediate, 2.5);
  EXPECT_EQ(program.pattern(program.operand(in, slot::memset::kDst)).element_count(), 8);
}

TEST(Executable, VerifyRefusesAWaitThatPointsForward) {
  auto program = std::make_shared<Program>();
  const Operand operands[] = {Operand::reg(program->add_register()), Operand::imm(1)};
  program->append(Opcode::kRegisterMove, Engine::kSync, operands, {}, 0);
  program->append(Opcode::kRegisterMove, Engine::kSync, operands, {}, 0);
  Executable executable;
  executable.program = program;
  executable.streams = {{Engine::kSync, 0}};
  executable.schedule = {{0, 0, Engine::kSync}, {1, 0, Engine::kSync}};
  EXPECT_NO_THROW(verify(executable));
  executable.waits = {1};
  executable.schedule[0].wait_count = 1;
  EXPECT_THROW(verify(executable), Fault);
}

TEST(Program, ATensorIsCalledByItsNameOrByWhatAndWhereItIs) {
  Program program;
  Tensor tensor;
  tensor.rows = 128, tensor.row_elements = 8, tensor.dtype = DType::kBFloat16, tensor.shape = {128, 2, 4};
  tensor.location = program.intern_location("kernels/kernel.py", 17, "f");
  program.add_tensor(tensor);
  tensor.name = "scores";
  program.add_tensor(tensor);
  EXPECT_EQ(tensor_label(program, 0), "tensor %0 (sbuf, bfloat16 [128, 2, 4], allocated at kernel.py:17)");
  EXPECT_EQ(tensor_label(program, 1), "'scores'");
}

}  // namespace
}  // namespace opentrn::isa
