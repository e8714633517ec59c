#include "arch/core_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/arch.h"
#include "base/fault.h"

namespace opentrn::arch {
namespace {

TEST(CoreFeatures, AreThoseOfTheTable) {
  const FactTable& facts = default_tables().facts();
  for (const Generation generation : kGenerations) {
    const std::string prefix = "neuron_core." + std::string(table_key(generation)) + ".can.";
    EXPECT_EQ(core_features(generation).scalar_copies, facts.spec<bool>(prefix + "scalar_copies").value());
    EXPECT_EQ(core_features(generation).matmul_mx, facts.spec<bool>(prefix + "matmul_mx").value());
  }
  EXPECT_FALSE(core_features(Generation::kV2).scalar_copies);
  EXPECT_TRUE(core_features(Generation::kV3).scalar_copies);
  EXPECT_FALSE(core_features(Generation::kV3).tile_indirection);
  EXPECT_TRUE(core_features(Generation::kV4).tile_indirection);
}

TEST(CoreFeatures, WhatACoreCanIsNeverTakenBackByALaterOne) {
  const FactTable& facts = default_tables().facts();
  for (const Fact* fact : facts.under("neuron_core.v1.can")) {
    const std::string name = fact->key.substr(fact->key.rfind('.'));
    bool before = false;
    for (const Generation generation : kGenerations) {
      const bool now =
          facts.spec<bool>("neuron_core." + std::string(table_key(generation)) + ".can" + name).value();
      EXPECT_TRUE(now || !before) << fact->key;
      before = now;
    }
  }
}

TEST(CoreFeatures, AreNotOverridden) {
  try {
    load_tables({{}, {"neuron_core.v3.can.tile_indirection=true"}});
    FAIL() << "not refused";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput);
    EXPECT_THAT(fault.what(), testing::HasSubstr("what programs mean"));
  }
}

}  // namespace
}  // namespace opentrn::arch
