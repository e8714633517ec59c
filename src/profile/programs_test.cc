#include "profile/programs.h"

#include <gmock/gmock.h>

namespace opentrn::profile {

namespace {

using ::testing::DoubleEq;
using Json = nlohmann::ordered_json;

ProgramRuns program(std::string name, int64_t runs, std::optional<double> device_us, double launch_us) {
  ProgramRuns out;
  out.name = out.function = std::move(name);
  out.runs = runs;
  out.device_us = device_us;
  out.launch_us = launch_us;
  return out;
}

TEST(Programs, LaunchesCountInTheStepAndThePrice) {
  const ProgramTotals totals = add_up({program("forward", 10, 40, 26), program("step", 10, 10, 26)}, 90, 1);
  EXPECT_THAT(totals.device_us, DoubleEq(10 * (66 + 36)));
  EXPECT_THAT(totals.launch_us, DoubleEq(520));
  EXPECT_THAT(*totals.step_us, DoubleEq(102));
  EXPECT_THAT(totals.core_hours, DoubleEq(1020 / 3.6e9));
  EXPECT_EQ(totals.longest, 0U);
}

TEST(Programs, OneWithoutATimeHasNoLaunchEither) {
  const ProgramTotals totals =
      add_up({program("host", 7, std::nullopt, 26), program("step", 2, 10, 26)}, 90, 1);
  EXPECT_EQ(totals.runs, 9);
  EXPECT_THAT(totals.device_us, DoubleEq(72));
  EXPECT_EQ(add_up({program("host", 7, std::nullopt, 26)}, 90, 1).step_us, std::nullopt);
}

TEST(Programs, AStepIsWhatRunsAsOftenAsTheFunctionThatTakesMost) {
  std::vector<ProgramRuns> programs{program("loss_1_backward", 1, 60, 0),
                                    program("loss_3_backward", 19, 60, 0), program("update", 20, 40, 0),
                                    program("evaluation", 4, 50, 0)};
  programs[0].function = programs[1].function = "loss_backward";
  const ProgramTotals totals = add_up(programs, 90, 1);
  EXPECT_EQ(totals.steps, 20);
  EXPECT_THAT(*totals.step_us, DoubleEq(100));
  EXPECT_THAT(totals.beside_us, DoubleEq(200));
  EXPECT_THAT(totals.device_us, DoubleEq(2200));
}

TEST(Programs, WhatRunsMoreOftenIsWithinTheStep) {
  const ProgramTotals totals = add_up({program("step", 10, 100, 0), program("layer", 40, 5, 0)}, 90, 1);
  EXPECT_THAT(*totals.step_us, DoubleEq(120));
  EXPECT_THAT(totals.beside_us, DoubleEq(0));
}

TEST(Programs, UtilisationIsOverTheWholeStep) {
  ProgramRuns one = program("step", 4, 74, 26);
  one.tensor_flops = 90e6;  // a microsecond at 90 TFLOPS
  EXPECT_THAT(*add_up({one}, 90, 1).mfu, DoubleEq(0.01));
}

TEST(Programs, DevicesOfTheLongestArePaidForAllTheTime) {
  ProgramRuns wide = program("wide", 1, 100, 0), narrow = program("narrow", 1, 20, 0);
  wide.devices = 8;
  EXPECT_THAT(add_up({narrow, wide}, 90, 1).core_hours, DoubleEq(8 * 120 / 3.6e9));
}

TEST(Programs, ClocksOfCoresSayWhatAStepOfOpsTakes) {
  ProgramRuns op = program("aten::mul", 60, 4, 26), other = program("aten::add", 20, 4, 26);
  op.is_op = other.is_op = true;
  op.tensor_flops = 90e6;  // a microsecond at 90 TFLOPS
  EXPECT_EQ(add_up({op, other}, 90, 1).step_us, std::nullopt);
  EXPECT_EQ(add_up({op, other}, 90, 1).step, "");
  const ProgramTotals totals = add_up({op, other}, 90, 1, {{3000, 10, 2000}, {3000, 8, 2400}, {0, 0, 0}});
  EXPECT_EQ(totals.steps, 8);  // of the core that takes longest for one
  EXPECT_THAT(*totals.step_us, DoubleEq(300));
  EXPECT_THAT(totals.beside_us, DoubleEq(600));
  EXPECT_THAT(*totals.mfu, DoubleEq(0.01));  // with what the cores waited for
  EXPECT_THAT(totals.core_hours, DoubleEq(6000 / 3.6e9));
  // A compiled graph beside ops is a step, where no clock says more.
  EXPECT_EQ(add_up({op, program("forward", 5, 10, 0)}, 90, 1).step, "forward");
}

Json usage_of(int64_t rank, int64_t runs, double peak) {
  Json usage = {{"cores", 1},
                {"bytes_peak", peak},
                {"clocks", {{{"device", 0}, {"stream_us", 9}, {"steps", 2}, {"steps_us", 8}}}},
                {"programs",
                 {{{"name", "aten::mul"}, {"runs", runs}, {"device_us", 4}, {"host_s", 1}},
                  {{"name", "aten::mul"}, {"runs", 1}, {"device_us", 4}, {"host_s", 1}},
                  {{"name", "aten::add"}, {"runs", runs}, {"device_us", nullptr}, {"host_s", 1}}}}};
  if (rank >= 0) usage["rank"] = rank;
  return usage;
}

TEST(Programs, UsagesOfRanksAreOne) {
  const Json whole = join_usages({usage_of(0, 3, 100), usage_of(1, 4, 300), usage_of(1, 5, 200)});
  EXPECT_EQ(whole.at("cores"), 2);
  EXPECT_EQ(whole.at("ranks"), 2);
  EXPECT_EQ(whole.at("bytes_peak"), 300);
  EXPECT_EQ(whole.at("clocks").size(), 3);
  ASSERT_EQ(whole.at("programs").size(), 3);
  EXPECT_EQ(whole.at("programs")[0].at("runs"), 12);
  EXPECT_EQ(whole.at("programs")[1].at("runs"), 3);
  EXPECT_EQ(whole.at("programs")[2].at("host_s"), 3);
  Json priced = whole;
  priced["tensor_peak_tflops_bf16"] = 90;
  priced["usd_h"] = Json::object();
  for (Json& row : priced["programs"]) row["devices"] = 1;
  EXPECT_THAT(summarise_programs(priced, 10).at("host_gap_s").get<double>(), DoubleEq(10 - 9.0 / 2));
  // Frameworks of one process are no ranks: each has programs of its own.
  const Json both = join_usages({usage_of(-1, 3, 100), usage_of(-1, 4, 300)});
  EXPECT_EQ(both.at("cores"), 1);
  EXPECT_EQ(both.at("ranks"), 1);
  EXPECT_EQ(both.at("programs").size(), 6);
}

TEST(Programs, SummaryHasTheRatesPriceAndTheLongestFirst) {
  const Json summary = summarise_programs(
      {{"tensor_peak_tflops_bf16", 90},
       {"usd_h", {{"on_demand", 3.6}, {"reserved", nullptr}}},
       {"programs",
        {{{"name", "a"}, {"runs", 1}, {"devices", 1}, {"host_s", 0.25}, {"device_us", 4}, {"launch_us", 6}},
         {{"name", "b"}, {"runs", 3}, {"devices", 1}, {"host_s", 0.25}, {"device_us", 24}, {"launch_us", 6}},
         {{"name", "c"},
          {"runs", 1},
          {"devices", 1},
          {"host_s", 0},
          {"device_us", nullptr},
          {"on_host", "x"}}}}},
      2.0);
  EXPECT_EQ(summary.at("programs").at(0).at("name"), "b");
  EXPECT_EQ(summary.at("programs").at(0).at("total_us"), 90);
  EXPECT_EQ(summary.at("programs").at(0).at("share"), 0.9);
  EXPECT_EQ(summary.at("programs").at(2).at("total_us"), nullptr);
  EXPECT_THAT(summary.at("usd").at("on_demand").get<double>(), DoubleEq(100 / 1e9));
  EXPECT_EQ(summary.at("usd").at("reserved"), nullptr);
  EXPECT_EQ(summary.at("host_gap_s"), 1.5);
  EXPECT_EQ(summary.at("without_time"), Json::array({"c"}));
  EXPECT_EQ(summary.at("on_host").at("c"), "x");
}

}  // namespace

}  // namespace opentrn::profile
