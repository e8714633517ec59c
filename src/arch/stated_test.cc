#include "arch/stated.h"

#include <gtest/gtest.h>

namespace opentrn::arch {
namespace {

TEST(Stated, GenerationsWithPublicFactsNeedNothing) {
  for (Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4}) {
    EXPECT_TRUE(unstated(default_tables(), generation).empty());
    EXPECT_TRUE(assumptions(default_tables(), generation).empty());
    EXPECT_EQ(stand_in(generation), generation);
    EXPECT_TRUE(has_engine(default_tables().timing(generation), "gpsimd"));
  }
}

TEST(Stated, OneErrorNamesEverythingThatV1Needs) {
  const std::vector<std::string> keys = unstated(default_tables(), Generation::kV1);
  EXPECT_GT(keys.size(), 10u);
  try {
    expect_stated(default_tables(), Generation::kV1);
    FAIL() << "the clocks of NeuronCore-v1 are not published";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kUnspecified);
    for (const std::string& key : keys)
      EXPECT_NE(std::string(fault.what()).find("--set " + key + "=<value>"), std::string::npos);
  }
}

TEST(Stated, WhatTheUserStatesIsAnAssumptionOfTheTime) {
  Overrides overrides;
  for (const std::string& key : unstated(default_tables(), Generation::kV1))
    overrides.settings.push_back(key + (key.find("share") != std::string::npos ? "=true" : "=128"));
  const auto tables = load_tables(overrides);
  EXPECT_NO_THROW(expect_stated(*tables, Generation::kV1));
  const std::vector<std::string> texts = assumptions(*tables, Generation::kV1);
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_NE(texts[0].find("NeuronCore-v2"), std::string::npos);
  EXPECT_NE(texts[1].find("neuron_core.v1.tensor_clock_ghz = 128"), std::string::npos);
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
