#include "arch/stated.h"

#include <gtest/gtest.h>

namespace opentrn::arch {
namespace {

TEST(Stated, GenerationsWithPublicFactsAssumeNothing) {
  for (Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4}) {
    EXPECT_TRUE(assumptions(default_tables(), generation).empty());
    EXPECT_EQ(stand_in(generation), generation);
    EXPECT_TRUE(has_engine(default_tables().timing(generation), "gpsimd"));
  }
}

// neuron-core-v1.rst: 16 TFLOPS; neuron-core-v2.rst: ScalarE 3x and VectorE 10x the speed of NeuronCore-v1.
TEST(Stated, V1HasTheRatesThatArePublished) {
  const NeuronCore &v1 = neuron_core(Generation::kV1), &v2 = neuron_core(Generation::kV2);
  EXPECT_NEAR(2e-3 * v1.tensor_rows * v1.tensor_columns * v1.tensor_clock_ghz, 16, 0.05);
  const auto vector_rate = [](Generation generation, const char* instruction) {
    const CostMode& mode = default_tables().timing(generation).cost(instruction).mode();
    return neuron_core(generation).clock_ghz("vector") / (mode.cycles({.elements = 4096}) / 4096);
  };
  for (const char* instruction : {"tensor_tensor", "tensor_reduce", "tensor_copy", "bn_stats", "reciprocal"})
    EXPECT_NEAR(vector_rate(Generation::kV2, instruction) / vector_rate(Generation::kV1, instruction), 10,
                0.1)
        << instruction;
  EXPECT_NEAR(v2.clock_ghz("scalar") / v1.clock_ghz("scalar"), 3, 0.01);
  const std::vector<std::string> texts = assumptions(default_tables(), Generation::kV1);
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_NE(texts[0].find("NeuronCore-v2"), std::string::npos);
}

TEST(Stated, AnInstructionWithoutAPublicCostTakesWhatTheUserStates) {
  const std::string key = "timing.v3.instruction.nonzero_with_count.default.";
  const auto half = load_tables({.settings = {key + "extra_cycles=100"}});
  const InstructionCost& unfinished = half->timing(Generation::kV3).cost("nonzero_with_count");
  EXPECT_TRUE(unfinished.modes.empty());
  EXPECT_EQ(unfinished.unstated, std::vector<std::string>{key + "cycles_per_element"});
  EXPECT_NE(how_to_state(unfinished.unstated).find("--set " + key + "cycles_per_element="),
            std::string::npos);

  const auto whole = load_tables({.settings = {key + "extra_cycles=100", key + "cycles_per_element=2"}});
  const InstructionCost& stated = whole->timing(Generation::kV3).cost("nonzero_with_count");
  EXPECT_EQ(stated.mode().cycles({.elements = 64}), 228);
  ASSERT_EQ(assumptions(*whole, Generation::kV3).size(), 1u);
  EXPECT_NE(assumptions(*whole, Generation::kV3)[0].find(key + "extra_cycles = 100"), std::string::npos);
  EXPECT_TRUE(assumptions(default_tables(), Generation::kV3).empty());
}

// neuron-core-v1.rst: Tensor, Scalar and Vector engines.
TEST(Stated, V1HasNoGpSimd) {
  const TimingTable& table = default_tables().timing(Generation::kV1);
  EXPECT_FALSE(has_engine(table, "gpsimd"));
  for (const char* engine : {"tensor", "vector", "scalar"}) EXPECT_TRUE(has_engine(table, engine));
}

}  // namespace
}  // namespace opentrn::arch
