// Every rule is broken by its case (constraints_cases_test.cc) and by nothing that is legal.
#include "isa/constraints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "isa/constraints_cases.h"

namespace opentrn::isa {
namespace {

TEST(Constraints, EveryOpcodeHasALegalInstruction) {
  for (const InstructionDefinition& row : definitions())
    for (const Generation generation : kGenerations) {
      if (generation < std::max(Generation::kV3, row.first_generation)) continue;
      Draft draft(row.opcode);
      draft.generation = generation;
      EXPECT_NO_THROW(draft.run()) << row.name << " on " << opentrn::name(generation);
    }
}

TEST(Constraints, EveryLabelHasACase) {
  std::set<std::string_view> tested;
  for (const Case& c : cases()) EXPECT_TRUE(tested.insert(c.label).second) << c.label;
  for (const Constraint& rule : constraints()) {
    EXPECT_TRUE(tested.contains(rule.label)) << rule.label;
    EXPECT_FALSE(rule.rule.empty() || rule.source.empty()) << rule.label;
  }
  EXPECT_EQ(tested.size(), constraints().size());
}

TEST(Constraints, EveryCaseBreaksItsRule) {
  for (const Case& c : cases()) {
    Draft draft(c.opcode);
    c.break_rule(draft);
    try {
      draft.run();
      ADD_FAILURE() << c.label << " was not refused";
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), c.label) << fault.what();
      EXPECT_EQ(fault.kind(), c.label == "isa.C8" ? FaultKind::kCapacity : FaultKind::kProgram) << c.label;
      EXPECT_THAT(fault.what(), testing::HasSubstr("NeuronCore-v")) << c.label;
    }
  }
}

TEST(Constraints, NumbersHaveNoGaps) {
  std::map<std::string_view, int> last;
  for (const Constraint& rule : constraints()) {
    const size_t dot = rule.label.find(".C");
    ASSERT_NE(dot, std::string_view::npos) << rule.label;
    EXPECT_EQ(rule.label.substr(dot + 2), std::to_string(++last[rule.label.substr(0, dot)])) << rule.label;
  }
}

TEST(Constraints, AFaultShowsTheOperands) {
  Draft draft(Opcode::kNcMatmul);
  draft.shape(slot::nc_matmul::kMoving, {128, 513});
  draft.shape(slot::nc_matmul::kDst, {64, 513});
  try {
    draft.run();
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_THAT(fault.what(), testing::HasSubstr("moving has 513 columns; at most 512 are possible"));
    EXPECT_THAT(fault.what(), testing::HasSubstr("moving = bfloat16[128, 513] in sbuf"));
    EXPECT_FALSE(fault.hint().empty());
  }
}

TEST(Constraints, LimitsFollowTheGeneration) {
  namespace s = slot::nc_matmul;
  const auto columns = [](Generation generation, DType dst, int64_t n) {
    Draft d(Opcode::kNcMatmul);
    d.generation = generation;
    d.operands[s::kDst] = d.tile(MemorySpace::kPsum, dst, {64, n});
    d.shape(s::kMoving, {128, n});
    d.run();
  };
  EXPECT_NO_THROW(columns(Generation::kV2, DType::kFloat32, 512));
  EXPECT_THROW(columns(Generation::kV2, DType::kFloat32, 513), Fault);
  EXPECT_NO_THROW(columns(Generation::kV4, DType::kFloat32, 4096));
  EXPECT_THROW(columns(Generation::kV4, DType::kFloat32, 4097), Fault);
  EXPECT_NO_THROW(columns(Generation::kV4, DType::kBFloat16, 8192));
}

// The nearest legal neighbours of the cases of nc_matmul.C20 to C22.
TEST(Constraints, OperandsOfAProductLieWhereTheArrayReachesThem) {
  using namespace slot::nc_matmul;
  const auto runs = [](int64_t stationary_from, int64_t moving_from, int64_t dst_from, auto tile) {
    Draft d(Opcode::kNcMatmul);
    d.walk(kStationary, {{64, 32}, {1, 64}}, stationary_from * 64);
    d.walk(kMoving, {{256, 32}, {1, 256}}, moving_from * 256);
    d.shape(kDst, {128, 256});
    d.walk(kDst, {{256, 64}, {1, 256}}, dst_from * 256);
    tile(d);
    d.run();
  };
  const auto none = [](Draft&) {};
  EXPECT_NO_THROW(runs(64, 64, 64, [](Draft& d) { in_tile(d, 32, 64, 64, 64); }));
  EXPECT_NO_THROW(runs(96, 96, 64, [](Draft& d) { in_tile(d, 64, 128, 64, 0); }));
  // Without a tile a product goes to whichever partitions dst has: partition vectorization.
  EXPECT_NO_THROW(runs(0, 0, 64, none));
  EXPECT_NO_THROW(runs(96, 96, 0, none));
  EXPECT_THROW(runs(96, 64, 0, none), Fault);

  // Tensors of few rows, which the compiler places, can lie wherever they are needed; with an address they
  // cannot.
  Draft d(Opcode::kNcMatmul);
  in_tile(d, 64, 64, 64, 64);
  d.shape(kStationary, {64, 64});
  d.shape(kMoving, {64, 256});
  EXPECT_NO_THROW(d.run());
  d.place(kDst, 64);
  EXPECT_NO_THROW(d.run());
  d.place(kDst, 0);
  EXPECT_THROW(d.run(), Fault);
}

// Kernels pass the result of a comparison: bool is stored as one byte.
TEST(Constraints, ABoolPredicateIsAByte) {
  Draft copy(Opcode::kTensorCopyPredicated);
  copy.dtype(slot::tensor_copy_predicated::kPredicate, DType::kBool);
  EXPECT_NO_THROW(copy.run());
  Draft select(Opcode::kSelectReduce);
  select.dtype(slot::select_reduce::kPredicate, DType::kBool);
  EXPECT_NO_THROW(select.run());
}

}  // namespace
}  // namespace opentrn::isa
