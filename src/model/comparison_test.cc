#include "model/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include <nlohmann/json.hpp>

namespace opentrn::model {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ComparedTarget target_named(const std::string& name) {
  for (const ComparedTarget& each : compared_targets(arch::default_tables()))
    if (each.name == name) return each;
  throw std::out_of_range(name);
}

// A profile of a program with one size of instance of Trainium2.
json profile_of(double latency_us, double per_s, double usd, int64_t hbm_bytes = 1000) {
  const json rate{{"usd_h", 1}, {"usd_per_million", usd}};
  const json row{{"instance", "trn2.48xlarge"},
                 {"chip", "Trainium2"},
                 {"chips", 16},
                 {"cores", 128},
                 {"fits", true},
                 {"latency_us", latency_us},
                 {"inferences_per_s", per_s},
                 {"on_demand", nullptr},
                 {"reserved_3_years", rate},
                 {"capacity_block", rate}};
  return {{"model", {{"latency_us", latency_us}, {"launch_us", 10.0}, {"serving", {row}}}},
          {"memory", {{"hbm_bytes_used", hbm_bytes}, {"sbuf_bytes_per_partition_used", 2048}}}};
}

const ComparedRun kRun{.compile_s = 1,
                       .mfu_percent = 12.34,
                       .mbu_percent = 5,
                       .bound_by = "DMA",
                       .trust = "half of it\nis assumed",
                       .band = R"({"low_ns": 1})",
                       .host_ops = 0};

TEST(Comparison, EveryNeuronCoreHasOneTarget) {
  std::vector<std::string> names, cores;
  for (const ComparedTarget& each : compared_targets(arch::default_tables())) {
    names.push_back(each.name);
    cores.push_back(each.core);
    EXPECT_FALSE(each.chips.empty());
  }
  EXPECT_THAT(names, ElementsAre("inf1", "trn1", "trn2", "trn3"));
  EXPECT_THAT(cores, ElementsAre("NeuronCore-v1", "NeuronCore-v2", "NeuronCore-v3", "NeuronCore-v4"));
}

TEST(Comparison, TablesFitANarrowTerminal) {
  Comparison found("m.onnx", arch::default_tables());
  found.add(target_named("trn2"), kRun, profile_of(1500, 1e6 / 7, 0.25));
  found.add_unknown(target_named("inf1"), "no public source says how fast it is");
  for (const size_t width : {50, 64, 80, 100}) {
    std::istringstream lines(found.text(width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
  }
  const std::string narrow = found.text(50);
  EXPECT_THAT(narrow, HasSubstr("\n    HBM 1000 B; bound by DMA\n"));
  EXPECT_THAT(narrow, HasSubstr("\n    3 years $0.25; block $0.25\n"));
}

TEST(Comparison, ARowSaysWhatTheProfileDoes) {
  Comparison found("m.onnx", arch::default_tables());
  found.add(target_named("trn2"), kRun, profile_of(1500, 1e6 / 7, 0.25));
  const InstanceRow row = found.instances().at(0);
  EXPECT_EQ(row.inferences_per_s, 1e6 / 7);
  EXPECT_EQ(row.prices[0], std::nullopt);
  EXPECT_EQ(row.usd_per_million(), 0.25);
  EXPECT_THAT(found.text(),
              HasSubstr("  v3          Trainium2  1.50 ms  12.3 %  5.0 %  2 KiB  1000 B  DMA\n"));
  EXPECT_THAT(found.text(),
              HasSubstr("trn2.48xlarge     16    128  1.50 ms     142,857    unknown    $0.25  $0.25\n"));
  EXPECT_THAT(found.text(), HasSubstr("  Trainium2: half of it; is assumed\n"));
  EXPECT_EQ(found.json()["instances"][0]["usd_per_million"], 0.25);
}

TEST(Comparison, StagesAddUpAndStayInTheMemory) {
  Comparison found("m.onnx", arch::default_tables());
  const json stages{
      {"stages",
       {{{"profile", profile_of(100, 50, 2)}}, {{"profile", profile_of(300, 100, 3, int64_t{1} << 45)}}}}};
  found.add(target_named("trn2"), kRun, stages);
  const InstanceRow row = found.instances().at(0);
  EXPECT_EQ(row.latency_us, 400);
  EXPECT_DOUBLE_EQ(row.inferences_per_s, 1 / (1.0 / 50 + 1.0 / 100));
  EXPECT_EQ(row.prices[2], 5);
  EXPECT_FALSE(row.fits);  // 32 TiB are in no core's share
  EXPECT_EQ(row.usd_per_million(), std::nullopt);
  EXPECT_EQ(found.chips().at(0).launch_us, 20);
  EXPECT_THAT(found.text(), HasSubstr("does not fit"));
}

TEST(Comparison, TheCheapestIsFirstAndWhatIsUnknownLast) {
  Comparison found("m.onnx", arch::default_tables());
  found.add_unknown(target_named("inf1"), "no public source says how fast it is");
  found.add(target_named("trn2"), kRun, profile_of(100, 50, 2));
  found.add(target_named("trn2"), kRun, profile_of(100, 50, 1));
  found.set_sizes({{"rows", 5}});
  const std::vector<InstanceRow> rows = found.instances();
  EXPECT_EQ(rows[0].usd_per_million(), 1);
  EXPECT_EQ(rows[1].usd_per_million(), 2);
  EXPECT_FALSE(rows[2].is_known);
  EXPECT_THAT(found.text(), HasSubstr("Of an inference with rows=5, which data decide\n"));
  EXPECT_THAT(found.text(), HasSubstr("time unknown, no public\n    source says how fast it is\n"));
  EXPECT_THAT(found.text(), Not(HasSubstr("  inf1.xlarge  ")));
  EXPECT_TRUE(found.json()["chips"][0]["latency_us"].is_null());
}

}  // namespace
}  // namespace opentrn::model
