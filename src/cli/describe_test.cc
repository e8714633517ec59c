#include "cli/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_for_test.h"
#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST(Describe, AnInstanceHasTotalsNeighboursPricesAndSources) {
  const Ran ran = run_for_test({"describe", "trn1.32xlarge"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("bf16 peak +3,040 TFLOPS"), ContainsRegex("NeuronCores +32\n"),
                             ContainsRegex("0  12, 3, 4, 1\n"),
                             ContainsRegex("on_demand_usd_h +21.5 +documented"), HasSubstr("trn1-arch.rst")));
}

TEST(Describe, AlternativesSayWhyOneWasChosen) {
  const Ran ran = run_for_test({"describe", "Trainium2"});
  EXPECT_THAT(ran.out, AllOf(ContainsRegex("memory_bandwidth_gb_s +2,900 +documented"),
                             ContainsRegex("elsewhere 3,000 \\[[0-9]+\\]"), HasSubstr("chosen because: ")));
}

TEST(Describe, ANameOfTwoWordsNeedsNoQuotes) {
  EXPECT_THAT(run_for_test({"describe", "trn2", "ultraserver"}).out,
              HasSubstr("Trn2 UltraServer (UltraServer)"));
}

TEST(Describe, ATargetIsACoreAndTheChipsThatHaveIt) {
  const Ran ran = run_for_test({"describe", "trn2"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("trn2 (target)"), HasSubstr("sbuf_bytes_per_partition"),
                             ContainsRegex("memory_bandwidth_gb_s +2,900")));
  EXPECT_THAT(run_for_test({"describe", "trn22"}).err, HasSubstr("did you mean 'trn2'"));
  EXPECT_EQ(run_for_test({"describe", "gen4", "--json"}).code, 0);
}

TEST(Describe, ATimingTableShowsFormulasAndConditions) {
  const Ran ran = run_for_test({"describe", "timing.v3"});
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("max(64, N/4)"), HasSubstr("semaphore_latency_ns"), HasSubstr("not modelled")));
}

TEST(Describe, APartOfTheTablesIsAName) {
  EXPECT_THAT(run_for_test({"describe", "collective.trn2"}).out, HasSubstr("rdh_bytes_max"));
}

TEST(Describe, OneValueIsAName) {
  const Ran ran = run_for_test({"describe", "timing.v3.constant.hwdge_instruction_ns"});
  EXPECT_THAT(ran.out,
              AllOf(ContainsRegex("hwdge_instruction_ns +600 +documented"), HasSubstr("nki-dge.rst")));
  EXPECT_THAT(run_for_test({"describe", "timing.v3.constant.hwdge_instruction_n"}).err,
              HasSubstr("did you mean 'timing.v3.constant.hwdge_instruction_ns'"));
}

TEST(Describe, AWhatIfIsShownAsAssumed) {
  const Ran ran = run_for_test({"describe", "NeuronCore-v3", "--set", "neuron_core.v3.tensor_clock_ghz=3.2"});
  EXPECT_THAT(ran.out,
              AllOf(ContainsRegex("tensor_clock_ghz +3.2 +assumed"), HasSubstr("the table says 2.4")));
}

TEST(Describe, JsonCarriesProvenance) {
  const auto json = nlohmann::json::parse(run_for_test({"describe", "trn2.48xlarge", "--json"}).out);
  EXPECT_EQ(json["totals"]["neuron_cores"], 128);
  EXPECT_EQ(json["topology"]["connected_to"][0], nlohmann::json({12, 3, 4, 1}));
  EXPECT_EQ(json["facts"][0]["confidence"], "documented");
  EXPECT_THAT(json["facts"][0]["source"].get<std::string>(), HasSubstr("trn2-arch.rst"));
}

TEST(Describe, AnUnknownNameSuggestsTheNearest) {
  const Ran ran = run_for_test({"describe", "trn2.48xlarg"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("did you mean 'trn2.48xlarge'"));
}

TEST(Describe, EveryItemFitsTheLine) {
  const arch::Tables& tables = arch::default_tables();
  std::vector<std::string> names = {"timing.v1", "timing.v2", "timing.v3",
                                    "timing.v4", "runtime",   "collective.trn2"};
  for (const auto& core : tables.neuron_cores()) names.push_back(core.name);
  for (const auto& chip : tables.chips()) names.push_back(chip.name);
  for (const auto& instance : tables.instances()) names.push_back(instance.name);
  for (const auto& server : tables.ultraservers()) names.push_back(server.name);
  for (const auto& chip : tables.comparison_chips()) names.push_back(chip.name);
  for (const auto& topology : tables.topologies()) names.push_back(topology.name);
  for (const std::string& name : names) {
    const Ran ran = run_for_test({"describe", name.c_str()});
    EXPECT_EQ(ran.code, 0) << name << ran.err;
    EXPECT_LE(longest_line(ran.out), kLineWidth) << name;
  }
}

}  // namespace
}  // namespace opentrn::cli
