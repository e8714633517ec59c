#include "arch/fact_table.h"

#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/tables.h"
#include "base/temporary_folder_for_test.h"

namespace opentrn::arch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kSources =
    "[source]\npage = \"owner/repo@1:page.rst\"\nother = \"owner/repo@1:other.rst\"\n";

FactTable table_of(std::string_view text) {
  FactTable table;
  table.read(kSources, "sources.toml");
  table.read(text, "test.toml");
  table.resolve_inheritance();
  return table;
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "no fault";
}

TEST(FactTable, APlainValueSharesTheProvenanceOfItsTable) {
  const FactTable table =
      table_of("[core.v3]\nconfidence = \"documented\"\nsource = \"page\"\nclock_ghz = 2.4\n");
  const Fact& fact = table.at("core.v3.clock_ghz");
  EXPECT_EQ(fact.as<double>(), 2.4);
  EXPECT_EQ(fact.confidence, Confidence::kDocumented);
  EXPECT_EQ(fact.source, "owner/repo@1:page.rst");
}

TEST(FactTable, AFullValueHasItsOwnAndItsAlternatives) {
  const FactTable table = table_of(R"(
    [core.v3.rate_gb_s]
    value = 23
    confidence = "measured"
    source = "page"
    alternatives = [{value = 27.2, source = "other", note = "theoretical"}]
    reason = "measured"
  )");
  const Fact& fact = table.at("core.v3.rate_gb_s");
  ASSERT_EQ(fact.alternatives.size(), 1u);
  EXPECT_EQ(to_string(fact.alternatives[0].value), "27.2");
  EXPECT_EQ(fact.alternatives[0].source, "owner/repo@1:other.rst");
  EXPECT_EQ(fact.reason, "measured");
}

TEST(FactTable, AnUnknownValueIsARowButCannotBeRead) {
  const FactTable table =
      table_of("[core.v1]\nsource = \"page\"\nclock_ghz = {value = \"unknown\", confidence = \"unknown\"}\n");
  const Spec<double> spec = table.spec<double>("core.v1.clock_ghz");
  EXPECT_TRUE(spec.listed());
  EXPECT_FALSE(spec.known());
  EXPECT_THAT(message_of([&] { (void)double(spec); }),
              HasSubstr("unspecified behaviour [core.v1.clock_ghz]"));
}

TEST(FactTable, AValueWithoutProvenanceIsRefused) {
  EXPECT_THAT(message_of([] { table_of("[core]\nclock_ghz = 1\n"); }), HasSubstr("confidence is ''"));
  EXPECT_THAT(message_of([] { table_of("[core]\nconfidence = \"documented\"\nclock_ghz = 1\n"); }),
              HasSubstr("source '' is not in [source]"));
  EXPECT_THAT(
      message_of([] { table_of("[core]\nconfidence = \"sure\"\nsource = \"page\"\nclock_ghz = 1\n"); }),
      HasSubstr("confidence is 'sure'"));
}

TEST(FactTable, AMalformedRowIsRefusedWithItsLine) {
  EXPECT_THAT(message_of([] { table_of("a = \n"); }), HasSubstr("at test.toml:1"));
  EXPECT_THAT(message_of([] {
                table_of("[a]\nconfidence = \"assumed\"\nsource = \"page\"\nb = {value = 1, vaule = 2}\n");
              }),
              HasSubstr("'vaule' cannot stand beside `value`"));
  EXPECT_THAT(message_of([] {
                table_of(
                    "[a]\nconfidence = \"assumed\"\nsource = \"page\"\n"
                    "b = {value = 1, alternatives = [{value = 2, source = \"page\"}]}\n");
              }),
              HasSubstr("alternatives need a `reason`"));
}

TEST(FactTable, InheritsAsAssumedAndDrops) {
  FactTable table;
  table.read(kSources, "sources.toml");
  table.read("prefix = \"t.v2\"\n[x]\nconfidence = \"documented\"\nsource = \"page\"\na = 1\nb = 2\nc = 3\n",
             "v2.toml");
  table.read(
      "prefix = \"t.v3\"\ninherits = \"t.v2\"\ndrop = [\"x.c\"]\n"
      "[x]\nconfidence = \"documented\"\nsource = \"page\"\nb = 5\n",
      "v3.toml");
  table.resolve_inheritance();
  EXPECT_EQ(table.at("t.v3.x.a").as<int>(), 1);
  EXPECT_EQ(table.at("t.v3.x.a").confidence, Confidence::kAssumed);
  EXPECT_THAT(table.at("t.v3.x.a").note, HasSubstr("taken over from t.v2"));
  EXPECT_EQ(table.at("t.v3.x.b").as<int>(), 5);
  EXPECT_EQ(table.find("t.v3.x.c"), nullptr);
}

TEST(FactTable, ATableOfAFileInheritsFromAnother) {
  const FactTable table = table_of(
      "[link.a]\nconfidence = \"documented\"\nsource = \"page\"\nrate = 1\nlatency = 2\n"
      "[link.b]\ninherits = \"link.a\"\ndrop = [\"latency\"]\n[link.c]\ninherits = \"link.b\"\n");
  EXPECT_EQ(table.at("link.b.rate").as<int>(), 1);
  EXPECT_EQ(table.at("link.c.rate").confidence, Confidence::kAssumed);
  EXPECT_EQ(table.find("link.c.latency"), nullptr);
}

TEST(FactTable, KeepsFileOrder) {
  const FactTable table = table_of(
      "[z]\nconfidence = \"assumed\"\nsource = \"page\"\nb = 1\na = 2\n[c]\n"
      "confidence = \"assumed\"\nsource = \"page\"\nx = 1\n");
  EXPECT_THAT(table.items(""), ElementsAre("z", "c"));
  EXPECT_THAT(table.items("z"), ElementsAre("b", "a"));
  ASSERT_EQ(table.under("z").size(), 2U);
  EXPECT_EQ(table.under("z")[0]->key, "z.b");
}

TEST(Overrides, ASettingReplacesTheValueAndSaysSo) {
  const auto tables =
      load_tables({{}, {"neuron_core.v3.hbm_bandwidth_gb_s=500", "instance.trn2.48xlarge.chips=8"}});
  const NeuronCore& core = tables->neuron_core(Generation::kV3);
  EXPECT_EQ(core.hbm_bandwidth_gb_s, 500);
  EXPECT_EQ(core.hbm_bandwidth_gb_s.fact().confidence, Confidence::kAssumed);
  EXPECT_THAT(core.hbm_bandwidth_gb_s.fact().note, HasSubstr("the table says 362.5"));
  EXPECT_EQ(tables->instance("trn2.48xlarge").chips, 8);
  const auto sustained = [](const Tables& from) {
    return from.timing(Generation::kV3).constant("hbm_sustained_gb_s");
  };
  // The rate that the timing model spends follows, unless it is set itself.
  EXPECT_NEAR(sustained(*tables), sustained(default_tables()) * 500 / 362.5, 1e-9);
  const auto both = load_tables(
      {{}, {"timing.v3.constant.hbm_sustained_gb_s=100", "neuron_core.v3.hbm_bandwidth_gb_s=500"}});
  EXPECT_EQ(sustained(*both), 100);
  EXPECT_EQ(default_tables().neuron_core(Generation::kV3).hbm_bandwidth_gb_s, 362.5)
      << "defaults must not change";
}

TEST(Overrides, ReachTheTimingTable) {
  const auto tables = load_tables({{},
                                   {"timing.v3.instruction.tensor_tensor.default.cycles_per_element=4",
                                    "neuron_core.v3.dma_engine_gb_s=46"}});
  const TimingTable& timing = tables->timing(Generation::kV3);
  EXPECT_EQ(timing.cost("tensor_tensor").mode().cycles({.elements = 512}), 2048);
  EXPECT_EQ(timing.constant("dma_engine_gb_s"), 46);
}

TEST(Overrides, AnUnknownValueCanBeSet) {
  const auto tables = load_tables({{}, {"neuron_core.v1.gpsimd_clock_ghz=1.0"}});
  EXPECT_EQ(tables->neuron_core(Generation::kV1).clock_ghz("gpsimd"), 1.0);
}

TEST(Overrides, AFileHoldsFullKeys) {
  const TemporaryFolderForTest folder;
  const std::string path = folder.path() / "overrides.toml";
  std::ofstream(path) << "[neuron_core.v3]\ntensor_clock_ghz = 3.0\n"
                         "[instance.\"trn2.48xlarge\"]\nchips = {value = 4, source = \"my test\"}\n";
  const auto tables = load_tables({{path}, {}});
  EXPECT_EQ(tables->neuron_core(Generation::kV3).tensor_clock_ghz, 3.0);
  EXPECT_EQ(tables->instance("trn2.48xlarge").chips, 4);
  EXPECT_THAT(tables->instance("trn2.48xlarge").chips.fact().source, HasSubstr("my test"));
}

TEST(Overrides, ARateOrACountIsPositiveAndNearTheTables) {
  const auto refusal = [](const std::string& setting) {
    return message_of([&] { load_tables({{}, {setting}}); });
  };
  for (const std::string value : {"0", "-1", "nan", "inf"})
    EXPECT_THAT(refusal("neuron_core.v3.vector_clock_ghz=" + value), HasSubstr("is not a value for it"));
  EXPECT_THAT(refusal("instance.trn2.48xlarge.chips=-4"), HasSubstr("-4 is not a value for it"));
  EXPECT_THAT(refusal("neuron_core.v3.hbm_bandwidth_gb_s=1e-300"), HasSubstr("smaller than the table's"));
  EXPECT_THAT(refusal("neuron_core.v3.hbm_bandwidth_gb_s=1e12"), HasSubstr("larger than the table's"));
  EXPECT_THAT(refusal("timing.v3.constant.hwdge_instruction_ns=-1"), HasSubstr("not negative"));
}

TEST(Overrides, ACostMayBeNothing) { load_tables({{}, {"timing.v3.constant.hwdge_instruction_ns=0"}}); }

TEST(Overrides, ErrorsNameTheNearestKey) {
  EXPECT_THAT(message_of([] {
                load_tables({{}, {"neuron_core.v3.hbm_bandwith_gb_s=1"}});
              }),
              HasSubstr("did you mean 'neuron_core.v3.hbm_bandwidth_gb_s'"));
  EXPECT_THAT(message_of([] {
                load_tables({{}, {"neuron_core.v3.partitions=many"}});
              }),
              HasSubstr("'many' is of another kind than the table's '128'"));
  EXPECT_THAT(message_of([] { load_tables({{}, {"chips"}}); }), HasSubstr("is not key=value"));
  EXPECT_THAT(message_of([] { load_tables({{"/nonexistent.toml"}, {}}); }), HasSubstr("there is no file"));
}

}  // namespace
}  // namespace opentrn::arch
