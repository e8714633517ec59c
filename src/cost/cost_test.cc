#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "arch/arch.h"
#include "arch/embedded_tables.h"
#include "arch/fact_table.h"
#include "cost/usual.h"

namespace opentrn::cost {
namespace {

using isa::Engine;
using isa::MemorySpace;
using isa::Opcode;
using isa::Operand;
using testing::HasSubstr;

constexpr Generation kAll[] = {Generation::kV2, Generation::kV3, Generation::kV4};

// One instruction on whole tensors of [rows, columns].
class OneInstruction {
 public:
  Operand tensor(MemorySpace space, int64_t rows, int64_t columns, DType dtype) {
    isa::Tensor made;
    made.space = space;
    made.dtype = dtype;
    made.shape = {rows, columns};
    made.rows = isa::is_on_chip(space) ? rows : 1;
    made.row_elements = isa::is_on_chip(space) ? columns : rows * columns;
    isa::Pattern pattern;
    pattern.rank = 2;
    pattern.dims[0] = {columns, rows};
    pattern.dims[1] = {1, columns};
    Operand operand;
    operand.kind = isa::OperandKind::kAccess;
    operand.dtype = dtype;
    operand.tensor = program.add_tensor(std::move(made));
    operand.pattern = program.intern_pattern(pattern);
    return operand;
  }
  const isa::Instruction& append(Opcode opcode, const std::vector<Operand>& operands) {
    const std::vector<isa::AttributeWord> words(isa::definition(opcode).attributes.size(), {.integer = 0});
    return program.instruction(program.append(opcode, Engine::kUnknown, operands, words, 0));
  }
  isa::Program program;
};

TEST(Costs, ALongTransferUsuallyTakesWhatTheWrittenOneDoes) {
  for (const Generation generation : kAll) {
    const Costs costs(arch::timing(generation));
    OneInstruction one;
    const Operand tile = one.tensor(MemorySpace::kSbuf, 128, 4096, DType::kFloat32);
    const Operand source = one.tensor(MemorySpace::kHbm, 128, 4096, DType::kFloat32);
    const isa::Instruction& in = one.append(Opcode::kDmaCopy, {tile, source});
    const DmaWork work = costs.instructions.of_transfer(one.program, in, {}, all_pattern_facts(one.program));
    EXPECT_NEAR(costs.usual.transfer_ns(128, 4096 * 4) / to_ns(work.middle_busy), 1, 0.02)
        << name(generation);
  }
}

TEST(Costs, AProductUsuallyTakesWhatTheWrittenOneDoesAtTheFullClock) {
  for (const Generation generation : kAll) {
    const arch::TimingTable& table = arch::timing(generation);
    const Costs costs(table);
    for (const DType dtype : {DType::kBFloat16, DType::kFloat32})
      for (const int64_t columns : {1, 64, 512}) {
        OneInstruction one;
        const Operand sum = one.tensor(MemorySpace::kPsum, 128, columns, DType::kFloat32);
        const Operand stationary = one.tensor(MemorySpace::kSbuf, 128, 128, dtype);
        const Operand moving = one.tensor(MemorySpace::kSbuf, 128, columns, dtype);
        const isa::Instruction& in = one.append(Opcode::kNcMatmul, {sum, stationary, moving});
        const auto cost =
            costs.instructions.of(one.program, in, Engine::kTensor, all_pattern_facts(one.program));
        const TensorMode mode = dtype == DType::kFloat32 ? TensorMode::kFp32 : TensorMode::kDefault;
        EXPECT_NEAR(costs.usual.product_ns(mode, columns) / table.constant("tensor_sustained_rate"),
                    to_ns(cost.tensor.multiply), 0.01);
      }
    const int64_t least = costs.instructions.least_product_columns();
    const auto product_ns = [&](int64_t columns) {
      return costs.usual.product_ns(TensorMode::kDefault, columns);
    };
    EXPECT_EQ(product_ns(1), product_ns(least));
    EXPECT_LT(product_ns(least), product_ns(2 * least));
  }
}

TEST(Costs, WhatAnEngineUsuallyTakesIsWhatAnInstructionWithoutConditionsTakes) {
  for (const Generation generation : kAll) {
    const Costs costs(arch::timing(generation));
    for (const int64_t columns : {1, 100, 2048}) {
      OneInstruction one;
      const Operand out = one.tensor(MemorySpace::kPsum, 128, columns, DType::kFloat32);
      const Operand data = one.tensor(MemorySpace::kPsum, 128, columns, DType::kFloat32);
      const isa::Instruction& in = one.append(Opcode::kTensorReduce, {out, data});
      const auto cost =
          costs.instructions.of(one.program, in, Engine::kVector, all_pattern_facts(one.program));
      EXPECT_NEAR(costs.usual.busy_ns(Opcode::kTensorReduce, Engine::kVector, columns), to_ns(cost.busy),
                  0.01);
    }
  }
}

bool borrows(const arch::TimingTable& table, DType dtype) {
  OneInstruction one;
  const Operand dst = one.tensor(MemorySpace::kSbuf, 128, 512, dtype);
  const Operand src = one.tensor(MemorySpace::kSbuf, 128, 512, dtype);
  const isa::Instruction& in = one.append(Opcode::kTensorCopy, {dst, src});
  const InstructionCosts costs(table);
  return costs.of(one.program, in, Engine::kVector, all_pattern_facts(one.program)).fast_mode;
}

TEST(Costs, TheTableSaysWhichRowsBorrowTheBusOfGpSimd) {
  EXPECT_FALSE(borrows(arch::timing(Generation::kV2), DType::kBFloat16));
  EXPECT_TRUE(borrows(arch::timing(Generation::kV3), DType::kBFloat16));
  EXPECT_FALSE(borrows(arch::timing(Generation::kV3), DType::kFloat32));
  const auto tables =
      arch::load_tables({{}, {"timing.v3.instruction.tensor_copy.bf16_4x.borrows_gpsimd_bus=false"}});
  EXPECT_FALSE(borrows(tables->timing(Generation::kV3), DType::kBFloat16));
}

// The tables, and a row more.
std::string refusal_of(std::string_view row) {
  arch::FactTable facts;
  for (const bool sources : {true, false})
    for (const arch::EmbeddedTable& table : arch::embedded_tables())
      if ((table.file == "sources.toml") == sources) facts.read(table.text, table.file);
  facts.read(fmt::format("prefix = \"timing.v3\"\n[instruction]\nconfidence = \"assumed\"\nsource = "
                         "\"v3-guide\"\n{} = {{min_cycles = 64, when = \"sometimes\"}}\n",
                         row),
             "more.toml");
  facts.resolve_inheritance();
  try {
    const InstructionCosts costs(arch::TimingTable(facts, Generation::kV3));
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

TEST(Costs, ARowThatNoRuleAsksForIsRefusedWhenTheTableIsRead) {
  EXPECT_THAT(refusal_of("nc_matmul.quad_row"), HasSubstr("'quad_row' for nc_matmul on the Tensor engine"));
  EXPECT_THAT(refusal_of("load_stationary.quad_row"), HasSubstr("'quad_row' for load_stationary"));
  EXPECT_THAT(refusal_of("tensor_copy.fast_on_fridays"), HasSubstr("'fast_on_fridays' for tensor_copy"));
  EXPECT_EQ(refusal_of("tensor_copy.fast_psum_sbuf"), "");
}

}  // namespace
}  // namespace opentrn::cost
