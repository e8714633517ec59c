#include "arch/collective.h"

#include <gtest/gtest.h>

#include "arch/price.h"

namespace opentrn::arch {
namespace {

constexpr Generation kTrn2 = Generation::kV3;
constexpr double kMiB = 1024.0 * 1024.0;

double us(CollectiveKind kind, double bytes, int64_t ranks) {
  return collective_us(default_tables(), kTrn2, kind, bytes, ranks, 1).value();
}

TEST(Collective, CostsHopsAndBytes) {
  EXPECT_EQ(us(CollectiveKind::kAllReduce, kMiB, 1), 0.0);
  // Two passes over a mesh at 1 to 2 us a hop.
  EXPECT_NEAR(us(CollectiveKind::kAllReduce, 4, 8), 3.0, 1e-3);
  EXPECT_NEAR(us(CollectiveKind::kAllGather, 4, 8), 1.5, 1e-3);
  // An all-reduce is a reduce-scatter and an all-gather.
  for (const double bytes : {1024.0, 8 * kMiB, 256 * kMiB})
    EXPECT_NEAR(us(CollectiveKind::kAllReduce, bytes, 8),
                us(CollectiveKind::kReduceScatter, bytes, 8) + us(CollectiveKind::kAllGather, bytes, 8),
                1e-6 * bytes);
  double least = 0;
  for (double bytes = 1; bytes < 1e9; bytes *= 1.7) {
    const double now = us(CollectiveKind::kAllGather, bytes, 8);
    // From rings of four accesses to rings of three: fewer bytes, more hops.
    EXPECT_GE(now, bytes < 55 * kMiB || bytes > 110 * kMiB ? least : 0.0) << bytes;
    least = now;
  }
}

TEST(Collective, ChipsMeetOverTheirLinks) {
  // 1,024 GB/s of a chip's links for its eight cores.
  const double one_way = 256 * kMiB * 15 / 16 / (1024.0 / 8 * 1e3);
  EXPECT_GE(us(CollectiveKind::kAllGather, 256 * kMiB, 16), one_way);
  EXPECT_LT(us(CollectiveKind::kAllGather, 256 * kMiB, 16), 1.1 * one_way);
}

TEST(Collective, WhereNoLatencyIsPublishedNothingIsKnown) {
  EXPECT_FALSE(collective_us(default_tables(), Generation::kV2, CollectiveKind::kAllReduce, 1024, 8, 1));
}

TEST(Price, IsThatOfAnInstanceOrTheCheapest) {
  const Tables& tables = default_tables();
  const auto of_instance = usd_per_core_hour(tables, "trn1.32xlarge", 1);
  const Price& price = tables.instance("trn1.32xlarge").price;
  EXPECT_DOUBLE_EQ(of_instance.at("on_demand").value(), price.on_demand_usd_h / 32);
  EXPECT_DOUBLE_EQ(usd_per_core_hour(tables, "trn1.32xlarge", 2).at("on_demand").value(),
                   price.on_demand_usd_h / 16);
  EXPECT_LE(usd_per_core_hour(tables, "trn1", 1).at("on_demand").value(),
            of_instance.at("on_demand").value());
}

}  // namespace
}  // namespace opentrn::arch
