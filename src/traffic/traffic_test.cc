#include "traffic/traffic.h"

#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "arch/tables.h"
#include "base/fault.h"
#include "collectives/predict.h"
#include "traffic/events.h"

namespace opentrn::traffic {
namespace {

std::vector<std::pair<double, double>> pairs(const std::vector<Interval>& intervals) {
  std::vector<std::pair<double, double>> all;
  for (const Interval& one : intervals) all.emplace_back(one.start_ns, one.end_ns);
  return all;
}
using Pairs = std::vector<std::pair<double, double>>;

TEST(Traffic, IntervalsAreMergedAndTakenAway) {
  const auto all = merged({{5, 9}, {0, 2}, {1, 3}, {4, 4}, {9, 10}});
  EXPECT_EQ(pairs(all), (Pairs{{0, 3}, {5, 10}}));
  EXPECT_EQ(pairs(merged({{0, 3}, {5, 10}}, 2)), (Pairs{{0, 10}}));
  EXPECT_EQ(pairs(without(all, merged({{2, 6}, {7, 8}}))), (Pairs{{0, 2}, {6, 7}, {8, 10}}));
  EXPECT_EQ(covered_ns({{0, 3}, {2, 5}, {7, 8}}), 6);
}

// A link's bytes and its use over time are two sums of the same.
TEST(Traffic, WhatLinksCarryAddsUp) {
  const arch::Tables& tables = arch::default_tables();
  const auto platform = fabric::Platform::make(tables, "trn2.48xlarge");
  collectives::Job job;
  job.request = {.kind = collectives::Kind::kAllGather, .ranks = 16, .bytes = 1 << 20};
  job.cores = collectives::place_ranks(platform, 16, 8, 0);
  const std::vector<collectives::Job> jobs = {job};
  const auto predicted = collectives::predict(tables, platform, jobs);
  const auto& made = predicted.jobs[0];
  const collectives::Run run{
      &made.plan, collectives::costs_of(tables, platform.generation(), made.algorithm), job.cores, {}, 0};
  LinkMeter meter(platform, 2 * predicted.end_ps);
  meter.add(std::span(&run, 1), std::span(&made.time, 1), predicted.end_ps);
  Traffic traffic;
  traffic.total_ns = 2 * static_cast<double>(predicted.end_ps) / 1e3;
  meter.fill(traffic, static_cast<double>(predicted.end_ps) / 1e3, 100'000);
  const auto& carried = predicted.carried;
  int64_t expected = 0, got = 0;
  for (const int64_t bytes : carried) expected += bytes;
  for (const Link& link : traffic.links) {
    got += link.bytes;
    double parts = 0;
    for (const float percent : link.percent_over_time) parts += percent;
    EXPECT_NEAR(parts / LinkMeter::kParts, link.percent / 2, 0.01 * link.percent) << link.name;
    EXPECT_LE(link.percent, 100.1) << link.name;
    EXPECT_EQ(link.percent_over_time[0], 0) << "nothing before the offset";
  }
  EXPECT_NEAR(static_cast<double>(got), static_cast<double>(expected), 1e-3 * static_cast<double>(expected));
}

TEST(Traffic, FormsSayWhoWasLate) {
  Traffic traffic;
  traffic.title = "step";
  traffic.machine = "trn2.48xlarge";
  traffic.total_ns = 100;
  traffic.exposed_ns = 30;
  Collective one;
  one.name = "all_reduce \"x\"";
  one.algorithm = "mesh";
  one.group = {4, 7};
  one.bytes = 4000;
  one.bus_factor = 0.5;
  one.triggered_ns = {10, 50};
  one.arrived_ns = {10, 50};
  one.ended_ns = {90, 90};
  traffic.collectives.push_back(one);
  EXPECT_EQ(one.slowest(), 7);
  EXPECT_EQ(one.algorithm_gb_s(), 100);
  const auto json = traffic::json(traffic);
  EXPECT_EQ(json["collectives"][0]["slowest_rank"], 7);
  EXPECT_EQ(json["collectives"][0]["arrival_spread_ns"], 40);
  EXPECT_EQ(json["collectives"][0]["bus_gb_s"], 50);
  EXPECT_NE(text(traffic).find("0.0 of 0.1 us are collectives that nothing hides (30 %)"), std::string::npos);
  std::ostringstream out;
  for (int rank = 0; rank < 8; ++rank) traffic.ranks.push_back({"rank", 100, 0, 0, 0, {{0, 10}}});
  write_perfetto(traffic, out);
  const auto events = nlohmann::json::parse(out.str())["traceEvents"];
  EXPECT_TRUE(
      std::ranges::any_of(events, [](const auto& event) { return event["name"] == "waits for rank 7"; }));
}

// A program that has ended has told its traffic as JSON: read again it is what it was, and gives the same
// events.
TEST(Traffic, JsonReadAgainIsWhatItWas) {
  Traffic one;
  one.title = "step";
  one.machine = "trn2.48xlarge";
  one.total_ns = 40;
  one.ranks.push_back({"rank 0", 40, 20, 10, 5, {{0, 12}, {20, 40}}});
  Collective sum{"all_reduce", "ring", "it is large", "train.py:3", {0, 1}, 1 << 20, 1,
                 {1, 2},       {3, 4}, {30, 31},      1.5,          2};
  one.collectives.push_back(sum);
  one.links.push_back({"chip 0 -> chip 1", "NeuronLink", 128, 1 << 20, 50, {0, 25, 100}});
  one.links_used = 7;
  one.basis = {"assumed: x"};
  auto list = nlohmann::ordered_json::array({json(one), json(one)});
  const std::vector<Traffic> read = read_json(list.dump());
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(json(read[1]).dump(), json(one).dump());
  std::ostringstream events, of_one, again;
  write_perfetto(read, events);
  write_perfetto(one, of_one);
  write_perfetto(std::span(read).first(1), again);
  EXPECT_EQ(of_one.str(), again.str());
  const auto parsed = nlohmann::json::parse(events.str());
  std::vector<std::string> processes;
  for (const auto& event : parsed["traceEvents"])
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
  EXPECT_EQ(processes,
            (std::vector<std::string>{"step: ranks", "step: collectives (CC-cores)", "step: links",
                                      "step: ranks", "step: collectives (CC-cores)", "step: links"}));
  for (const char* text : {"", "[1]", "[{}]", "{"}) EXPECT_THROW(read_json(text), Fault) << text;
  list[0]["collectives"][0]["ended_ns"] = {1};
  EXPECT_THROW(read_json(list.dump()), Fault);
}

}  // namespace
}  // namespace opentrn::traffic
