#include "arch/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::arch {
namespace {

using testing::HasSubstr;

// The house rule of the tables: no number without where it comes from and how sure it is.
TEST(Tables, EveryValueHasASourceAndAConfidence) {
  ASSERT_GT(default_tables().facts().all().size(), 500u);
  for (const Fact& fact : default_tables().facts().all()) {
    EXPECT_FALSE(fact.source.empty()) << fact.key;
    EXPECT_EQ(fact.known(), fact.confidence != Confidence::kUnknown) << fact.key;
    // An assumption of ours must say what it rests on.
    if (fact.source == "OpenTrn assumption") {
      EXPECT_FALSE(fact.note.empty() && fact.reason.empty()) << fact.key;
    }
    for (const Alternative& alternative : fact.alternatives)
      EXPECT_FALSE(alternative.source.empty()) << fact.key;
  }
}

TEST(Tables, OnChipMemoriesPerGeneration) {
  struct Row {
    Generation generation;
    int64_t sbuf_kib;
    int64_t sbuf_mib;
  };
  for (const Row& row :
       {Row{Generation::kV2, 192, 24}, Row{Generation::kV3, 224, 28}, Row{Generation::kV4, 256, 32}}) {
    const NeuronCore& core = neuron_core(row.generation);
    EXPECT_EQ(core.partitions, 128);
    EXPECT_EQ(core.sbuf_bytes_per_partition, row.sbuf_kib * 1024);
    EXPECT_EQ(core.sbuf_bytes(), row.sbuf_mib << 20);
    EXPECT_EQ(core.psum_bytes(), 2 << 20);
    EXPECT_EQ(core.psum_banks * core.psum_bank_bytes_per_partition, core.psum_bytes_per_partition);
  }
}

TEST(Tables, ClocksPerGeneration) {
  EXPECT_EQ(neuron_core(Generation::kV2).clock_ghz("tensor"), 2.8);
  EXPECT_EQ(neuron_core(Generation::kV2).clock_ghz("vector"), 1.12);
  EXPECT_EQ(neuron_core(Generation::kV3).clock_ghz("vector"), 0.96);
  EXPECT_EQ(neuron_core(Generation::kV4).clock_ghz("scalar"), 1.2);
  EXPECT_THROW(neuron_core(Generation::kV4).clock_ghz("warp"), Fault);
}

TEST(Tables, WhatIsNotPublishedFaultsWhenRead) {
  try {
    (void)neuron_core(Generation::kV1).clock_ghz("gpsimd");
    FAIL() << "NeuronCore-v1 has no GpSimd engine";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kUnspecified);
    EXPECT_THAT(fault.hint(), HasSubstr("--set neuron_core.v1."));
  }
  EXPECT_FALSE(instance("trn2.48xlarge").price.on_demand_usd_h.known());
}

TEST(Tables, TargetsOfEveryKind) {
  EXPECT_EQ(resolve_target("trn1"), Generation::kV2);
  EXPECT_EQ(resolve_target("inf2"), Generation::kV2);
  EXPECT_EQ(resolve_target("trn2"), Generation::kV3);
  EXPECT_EQ(resolve_target("gen4"), Generation::kV4);
  EXPECT_EQ(resolve_target("trn3pre"), Generation::kV4);
  EXPECT_EQ(resolve_target("Trn2.48xlarge"), Generation::kV3);
  EXPECT_EQ(resolve_target("Trainium3"), Generation::kV4);
  EXPECT_EQ(resolve_target("NeuronCore-v3"), Generation::kV3);
  EXPECT_EQ(resolve_target("Trn3 Gen1 UltraServer"), Generation::kV4);
}

TEST(Tables, AMachineMayHaveSeveralNames) {
  EXPECT_EQ(instance("trn3s-es.48xlarge").name, "trn3-gen1-server");
  EXPECT_EQ(instance("TRN3E.24xlarge").name, "trn3-gen2-server");
  EXPECT_EQ(ultraserver("Trn2 UltraServer X2H").name, "Trn2 UltraServer X2");
  EXPECT_EQ(resolve_target("trn3.48xlarge"), Generation::kV4);
}

TEST(Tables, AnUnknownNameSuggestsTheNearest) {
  try {
    (void)resolve_target("trn2.48xlrge");
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput);
    EXPECT_THAT(fault.hint(), HasSubstr("'trn2.48xlarge'"));
  }
  EXPECT_THROW(chip("Trainium9"), Fault);
}

TEST(Tables, EveryReferenceBetweenTablesResolves) {
  const Tables& tables = default_tables();
  for (const Instance& instance : tables.instances()) {
    EXPECT_NO_THROW(tables.chip(instance.chip)) << instance.name;
    if (instance.topology.known()) {
      EXPECT_EQ(tables.topology(instance.topology.value()).chips(), instance.chips) << instance.name;
    }
    if (instance.chips > 1 && instance.neuronlink_gb_s.listed()) {
      EXPECT_GT(instance.neuronlink_gb_s, 0);
    }
    EXPECT_FALSE(tables.facts().under("fabric." + instance.fabric.value()).empty()) << instance.name;
    if (instance.efa_adapters.listed()) {
      EXPECT_EQ(instance.efa_adapters * instance.efa_adapter_gbps, instance.network_gbps) << instance.name;
    }
  }
  for (const ComparisonInstance& instance : tables.comparison_instances())
    EXPECT_NO_THROW(tables.comparison_chip(instance.chip.value())) << instance.name;
  for (const UltraCluster& cluster : tables.ultraclusters()) EXPECT_NO_THROW(tables.chip(cluster.chip));
}

TEST(Tables, AreReadOnceWhereNothingIsChanged) {
  EXPECT_EQ(load_tables({}).get(), &default_tables());
  EXPECT_NE(load_tables({{}, {"instance.trn2.48xlarge.chips=8"}}).get(), &default_tables());
}

}  // namespace
}  // namespace opentrn::arch
