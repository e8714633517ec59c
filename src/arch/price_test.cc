#include "arch/price.h"

#include <gmock/gmock.h>

namespace opentrn::arch {

namespace {

auto rates(std::string_view target, int physical = 1) {
  return rates_of_core(default_tables(), target, physical);
}

TEST(Price, OfANamedInstanceIsItsOwn) {
  const auto small = rates("trn1.2xlarge"), large = rates("trn1.32xlarge");
  EXPECT_EQ(small.at("on_demand")->instance, "trn1.2xlarge");
  EXPECT_DOUBLE_EQ(small.at("on_demand")->usd_h, 1.34375 / 2);  // src/arch/tables/price.toml
  EXPECT_FALSE(small.at("capacity_block"));
  EXPECT_DOUBLE_EQ(large.at("on_demand")->usd_h, 21.5 / 32);
  EXPECT_TRUE(large.at("capacity_block"));
}

TEST(Price, OfAFamilyIsThatOfItsCheapestInstance) {
  EXPECT_EQ(rates("trn1").at("on_demand")->instance, "trn1.2xlarge");
  EXPECT_EQ(rates("trn1n").at("on_demand")->instance, "trn1n.32xlarge");
  EXPECT_EQ(rates("inf2").at("on_demand")->instance, "inf2.xlarge");
  EXPECT_EQ(rates("trn2").at("capacity_block")->instance, "trn2.48xlarge");
}

TEST(Price, OfAChipOrACoreIsTheCheapestThatHasIt) {
  EXPECT_EQ(rates("Trainium").at("on_demand")->instance, "trn1.2xlarge");
  EXPECT_EQ(rates("NeuronCore-v2").at("on_demand")->instance, "inf2.xlarge");
  EXPECT_EQ(rates("gen2").at("on_demand")->instance, "inf2.xlarge");
}

TEST(Price, OfALogicalCoreIsThatOfItsPhysicalOnes) {
  const double one = rates("trn2.48xlarge").at("capacity_block")->usd_h;
  EXPECT_DOUBLE_EQ(rates("trn2.48xlarge", 2).at("capacity_block")->usd_h, 2 * one);
}

TEST(Price, OfAnUltraServerIsUnknownWhereNoneIsPublished) {
  EXPECT_FALSE(rates("Trn2 UltraServer").at("on_demand"));
}

}  // namespace

}  // namespace opentrn::arch
