#include "isa/definitions.h"

#include <gtest/gtest.h>

#include <set>

namespace opentrn::isa {
namespace {

TEST(Definitions, NamesAreUniqueAndFindTheirOpcode) {
  std::set<std::string_view> names;
  for (const InstructionDefinition& row : definitions()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(opcode_from_name(row.name), row.opcode);
  }
  EXPECT_EQ(opcode_from_name("no_such_instruction"), std::nullopt);
}

TEST(Definitions, SlotEnumsPointAtTheSlotsOfTheTable) {
  const auto operand = [](Opcode opcode, int i) { return definition(opcode).operands[i].name; };
  const auto attribute = [](Opcode opcode, int i) { return definition(opcode).attributes[i].name; };
  EXPECT_EQ(operand(Opcode::kNcMatmul, slot::nc_matmul::kMoving), "moving");
  EXPECT_EQ(attribute(Opcode::kNcMatmul, slot::nc_matmul::kAPerfMode), "perf_mode");
  EXPECT_EQ(operand(Opcode::kActivation, slot::activation::kReduceRes), "reduce_res");
  EXPECT_EQ(attribute(Opcode::kActivate2, slot::activate2::kAReduceCmd), "reduce_cmd");
  EXPECT_EQ(operand(Opcode::kRangeSelect, slot::range_select::kReduceRes), "reduce_res");
  EXPECT_EQ(attribute(Opcode::kRangeSelect, slot::range_select::kAOnFalseValue), "on_false_value");
  EXPECT_EQ(attribute(Opcode::kAffineSelect, slot::affine_select::kACmpOp), "cmp_op");
  EXPECT_EQ(operand(Opcode::kTensorScalarReduce, slot::tensor_scalar_reduce::kReduceInit), "reduce_init");
  EXPECT_EQ(attribute(Opcode::kTensorScalarReduce, slot::tensor_scalar_reduce::kAReduceResNegate),
            "reduce_res_negate");
  EXPECT_EQ(attribute(Opcode::kTensorScalar, slot::tensor_scalar::kAReverse1), "reverse1");
  EXPECT_EQ(attribute(Opcode::kSendRecv, slot::sendrecv::kADmaEngine), "dma_engine");
  EXPECT_EQ(operand(Opcode::kNcMatmulMx, slot::nc_matmul_mx::kMovingScale), "moving_scale");
  EXPECT_EQ(attribute(Opcode::kDmaTranspose, slot::dma_transpose::kAOobMode), "oob_mode");
}

TEST(Definitions, OnlyTheLastSlotRepeats) {
  for (const InstructionDefinition& row : definitions())
    for (size_t i = 0; i + 1 < row.operands.size(); ++i)
      EXPECT_FALSE(row.operands[i].accepts & kRepeats) << row.name;
}

}  // namespace
}  // namespace opentrn::isa
