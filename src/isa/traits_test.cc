#include "isa/traits.h"

#include <gtest/gtest.h>

#include <array>

#include "isa/definitions.h"
#include "isa/program.h"

namespace opentrn::isa {
namespace {

TEST(Traits, ControlFlowIsAlone) {
  for (const InstructionDefinition& row : definitions())
    EXPECT_TRUE(!is_control(row.opcode) || row.traits.has(kAlone)) << row.name;
}

TEST(Traits, WhatMeetsOtherCoresIsAlone) {
  for (const InstructionDefinition& row : definitions())
    EXPECT_TRUE(!row.traits.has(kSynchronisesCores) || row.traits.has(kAlone)) << row.name;
}

TEST(Traits, SlotsOfEngineStateAreThoseOfTheTable) {
  for (const InstructionDefinition& row : definitions()) {
    const EngineStateUse& use = row.traits.state;
    if (use.command >= 0) {
      ASSERT_LT(static_cast<size_t>(use.command), row.attributes.size()) << row.name;
      EXPECT_EQ(row.attributes[static_cast<size_t>(use.command)].kind, AttributeKind::kReduceCmd) << row.name;
    }
    if (use.result >= 0) {
      ASSERT_LT(static_cast<size_t>(use.result), row.operands.size()) << row.name;
      EXPECT_EQ(row.operands[static_cast<size_t>(use.result)].name, "reduce_res") << row.name;
    }
    EXPECT_TRUE(!use.optional || (use.command >= 0 && use.result >= 0)) << row.name;
  }
}

// An instruction with a reduce command uses accumulators in some form, or the scheduler would move it across
// another one that does.
TEST(Traits, ReduceCommandsUseAccumulators) {
  for (const InstructionDefinition& row : definitions())
    for (const AttributeSlot& attribute : row.attributes)
      EXPECT_TRUE(attribute.kind != AttributeKind::kReduceCmd ||
                  (row.traits.state.parts & (kVectorAccumulators | kScalarAccumulators)) != 0)
          << row.name;
}

class ActivationTraits : public ::testing::TestWithParam<std::tuple<ReduceCmd, bool>> {};

// An activation that reduces reads and writes Scalar's accumulators when its command is not idle, and also
// when only the place of the reduced result is given.
TEST_P(ActivationTraits, StateAndMixingFollowCommandAndResult) {
  const auto [command, has_result] = GetParam();
  Program program;
  Operand data;
  data.kind = OperandKind::kAccess;
  data.tensor = program.add_tensor({});
  std::vector<Operand> operands(5);
  operands[slot::activation::kDst] = operands[slot::activation::kData] = data;
  operands[slot::activation::kScale] = Operand::imm(1.0);
  if (has_result) operands[slot::activation::kReduceRes] = data;
  std::vector<AttributeWord> words(definition(Opcode::kActivation).attributes.size(), AttributeWord{});
  words[slot::activation::kAReduceCmd] = {.integer = static_cast<int64_t>(command)};
  program.append(Opcode::kActivation, Engine::kScalar, operands, words, 0);
  const Instruction& in = program.instruction(0);
  const bool uses = command != ReduceCmd::kIdle || has_result;
  EXPECT_EQ(engine_state_used(program, in), uses ? kScalarAccumulators : 0);
  const Mixing expected = !uses                                ? Mixing::kNone
                          : command == ReduceCmd::kResetReduce ? Mixing::kElementsOfALane
                                                               : Mixing::kLanes;
  EXPECT_EQ(mixing(program, in), expected);
}

INSTANTIATE_TEST_SUITE_P(All, ActivationTraits,
                         ::testing::Combine(::testing::Values(ReduceCmd::kIdle, ReduceCmd::kReset,
                                                              ReduceCmd::kReduce, ReduceCmd::kResetReduce),
                                            ::testing::Bool()));

}  // namespace
}  // namespace opentrn::isa
