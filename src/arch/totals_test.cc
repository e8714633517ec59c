#include "arch/totals.h"

#include <gtest/gtest.h>

namespace opentrn::arch {
namespace {

// AWS prints totals of rounded parts (42.8 PFLOPS is 4 x 10.7, not 64 x 667 TFLOPS): half a per cent
// covers all of them.
constexpr double kRoundingTolerance = 0.005;

const Fact* published(const std::string& key, const std::string& name) {
  return default_tables().facts().find(key + ".published." + name);
}

// 820 "GiB/s" and 820 "GB/s" are printed for the same HBM; the tables hold GB/s. The totals may
// therefore differ by the ratio of the units, 2^30 / 10^9 = 1.0737, and by nothing else.
void expect_bandwidth(const std::string& key, const Totals& sum) {
  if (const Fact* gb = published(key, "memory_bandwidth_gb_s")) {
    EXPECT_NEAR(sum.memory_bandwidth_gb_s / gb->as<double>(), 1, kRoundingTolerance) << key;
  }
  if (const Fact* gib = published(key, "memory_bandwidth_gib_s")) {
    const double ratio = gib->as<double>() * 1.073741824 / sum.memory_bandwidth_gb_s;
    EXPECT_GE(ratio, 1 - kRoundingTolerance) << key;
    EXPECT_LE(ratio, 1.0738) << key;
  }
}

void expect_published(const std::string& key, const Totals& sum) {
  for (const auto& [dtype, tflops] : sum.peak_tflops)
    if (const Fact* fact = published(key, dtype + "_tflops")) {
      EXPECT_NEAR(tflops / fact->as<double>(), 1, kRoundingTolerance) << key << " " << dtype;
    }
  if (const Fact* memory = published(key, "memory_gib")) {
    EXPECT_EQ(sum.memory_gib, memory->as<double>()) << key;
  }
  expect_bandwidth(key, sum);
}

TEST(Totals, EveryInstanceAddsUpToItsPublishedFigures) {
  int compared = 0;
  for (const Instance& instance : default_tables().instances()) {
    expect_published(instance.key, totals(default_tables(), instance));
    compared += published(instance.key, "memory_gib") != nullptr;
  }
  EXPECT_EQ(compared, 13) << "4 inf1, 4 inf2, 3 trn1, 2 trn2 sizes have published totals";
}

TEST(Totals, EveryUltraServerAddsUpToItsPublishedFigures) {
  for (const UltraServer& server : default_tables().ultraservers()) {
    ASSERT_NE(published(server.key, "memory_gib"), nullptr) << server.name;
    expect_published(server.key, totals(default_tables(), server));
  }
}

TEST(Totals, UltraServersAreMadeOfTheirServers) {
  const Tables& tables = default_tables();
  for (const UltraServer& server : tables.ultraservers()) {
    const Instance& instance = tables.instance(server.instance);
    EXPECT_EQ(instance.chips, server.chips_per_server) << server.name;
    EXPECT_EQ(server.servers * instance.vcpus, server.vcpus) << server.name;
    EXPECT_EQ(server.servers * instance.host_memory_gib, server.host_memory_gib) << server.name;
    EXPECT_EQ(server.servers * instance.network_gbps, server.network_gbps) << server.name;
    EXPECT_EQ(tables.topology(server.topology.value()).chips(), server.servers * server.chips_per_server);
  }
}

TEST(Totals, Trn3Gen2UltraServerHas144ChipsAnd362Pflops) {
  const Totals sum = totals(default_tables(), ultraserver("Trn3 Gen2 UltraServer"));
  EXPECT_EQ(sum.chips, 144);
  EXPECT_EQ(sum.cores, 1152);
  EXPECT_EQ(sum.memory_gib, 20736);
  EXPECT_EQ(sum.peak_tflops.at("mxfp8"), 362448);
  EXPECT_DOUBLE_EQ(sum.memory_bandwidth_gb_s, 705600);
}

// The guides round to whole TFLOPS: 91.75 is printed as 92.
TEST(Totals, TheTensorArrayAtItsClockGivesTheGuidesFigure) {
  for (Generation g : {Generation::kV2, Generation::kV3, Generation::kV4}) {
    const NeuronCore& core = neuron_core(g);
    EXPECT_NEAR(tensor_tflops(core), core.peak_tflops.at("bf16"), 0.5) << name(g);
  }
}

TEST(Totals, ChipParts) {
  for (const Chip& chip : default_tables().chips()) {
    const NeuronCore& core = neuron_core(chip.generation);
    if (core.hbm_bandwidth_gb_s.known()) {  // a derived share, rounded to two digits
      EXPECT_NEAR(chip.cores * core.hbm_bandwidth_gb_s, chip.memory_bandwidth_gb_s, 0.05) << chip.name;
    }
    if (core.dma_engines.known() && chip.dma_engines.known()) {
      EXPECT_EQ(chip.cores * core.dma_engines, chip.dma_engines) << chip.name;
    }
  }
}

}  // namespace
}  // namespace opentrn::arch
